//! Makes inputs out of seeds and of what was understood before, by chance.

use fastrand::Rng;

/// Inputs that others are made of, at most.
const CORPUS_MAX: usize = 512;
/// Longer ones are tried, and no others are made of them.
const KEPT_BYTES_MAX: usize = 4096;
/// One of so many that were understood is kept.
const KEPT_ONE_OF: usize = 4;
/// Numbers at which readers go wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    7,
    63,
    127,
    128,
    255,
    256,
    32_767,
    65_535,
    2_147_483_647,
    4_294_967_295,
    9_223_372_036_854_775_807,
    u64::MAX,
];

/// A source of inputs: first the seeds as they are.
pub struct Mutator {
    rng: Rng,
    untried: std::vec::IntoIter<Vec<u8>>,
    /// The seeds are its begin, and stay in it.
    corpus: Vec<Vec<u8>>,
    seeds: usize,
    words: Vec<Vec<u8>>,
    bytes_max: usize,
}

impl Mutator {
    /// The same inputs for the same seed, as long as the same ones are kept.
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>, bytes_max: usize) -> Self {
        let corpus: Vec<_> = seeds
            .iter()
            .filter(|seed| seed.len() <= KEPT_BYTES_MAX)
            .cloned()
            .collect();
        Self {
            rng: Rng::with_seed(seed),
            seeds: corpus.len(),
            words: seeds.iter().flat_map(|seed| words(seed)).collect(),
            untried: seeds.into_iter(),
            corpus,
            bytes_max,
        }
    }

    /// The next input.
    pub fn next(&mut self) -> Vec<u8> {
        if let Some(seed) = self.untried.next() {
            return seed;
        }
        let mut input = self.one().clone();
        let changes = 1 + self.rng.usize(..4).saturating_sub(1) + if self.rng.u8(..8) == 0 { 12 } else { 0 };
        for _ in 0..changes {
            self.change(&mut input);
        }
        input.truncate(self.bytes_max);
        input
    }

    /// This one was understood: others may be made of it.
    pub fn keep(&mut self, input: Vec<u8>) {
        if input.len() > KEPT_BYTES_MAX || self.rng.usize(..KEPT_ONE_OF) != 0 {
            return;
        }
        if self.corpus.len() < CORPUS_MAX {
            self.corpus.push(input);
        } else {
            let place = self.rng.usize(self.seeds..CORPUS_MAX);
            self.corpus[place] = input;
        }
    }

    fn one(&mut self) -> &Vec<u8> {
        // Half of them are seeds: chance alone wanders off.
        let among = if self.rng.bool() { self.seeds } else { self.corpus.len() };
        &self.corpus[self.rng.usize(..among)]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.rng.u8(..12) {
            0 => self.set_bit(input),
            1 => self.set_byte(input),
            2 => self.remove(input),
            3 => self.double(input),
            4 => self.repeat(input),
            5 => self.put_word(input),
            6 => self.join(input),
            7 | 8 => self.set_binary(input),
            9 => self.set_digits(input),
            10 => self.set_digit(input),
            _ => self.put_in_itself(input),
        }
    }

    /// A place in it, or its end.
    fn place(&mut self, input: &[u8]) -> usize {
        self.rng.usize(..=input.len())
    }

    fn part(&mut self, input: &[u8], most: usize) -> std::ops::Range<usize> {
        let begin = self.place(input);
        let length = self.rng.usize(..=most.min(input.len() - begin));
        begin..begin + length
    }

    fn set_bit(&mut self, input: &mut [u8]) {
        if !input.is_empty() {
            let place = self.rng.usize(..input.len());
            input[place] ^= 1 << self.rng.u8(..8);
        }
    }

    fn set_byte(&mut self, input: &mut [u8]) {
        if !input.is_empty() {
            let place = self.rng.usize(..input.len());
            input[place] = self.rng.u8(..);
        }
    }

    fn remove(&mut self, input: &mut Vec<u8>) {
        let part = self.part(input, 64);
        input.drain(part);
    }

    fn double(&mut self, input: &mut Vec<u8>) {
        let part = self.part(input, 256);
        let copy = input[part].to_vec();
        let place = self.place(input);
        input.splice(place..place, copy);
    }

    /// The same again and again: what nests, nests deeply.
    fn repeat(&mut self, input: &mut Vec<u8>) {
        let part = self.part(input, 16);
        let place = part.end;
        let room = self.bytes_max.saturating_sub(input.len());
        let most = if self.rng.u8(..8) == 0 { room } else { room.min(1024) };
        if let Some(times) = most.checked_div(part.len()) {
            let copies = input[part].repeat(self.rng.usize(..=times));
            input.splice(place..place, copies);
        }
    }

    fn put_word(&mut self, input: &mut Vec<u8>) {
        if self.words.is_empty() {
            return;
        }
        let word = self.words[self.rng.usize(..self.words.len())].clone();
        let over = self.part(input, word.len());
        let place = over.start;
        let replaced = if self.rng.bool() { over } else { place..place };
        input.splice(replaced, word);
    }

    fn join(&mut self, input: &mut Vec<u8>) {
        let other = self.one().clone();
        let from = self.part(&other, other.len());
        let place = self.place(input);
        input.splice(place..place, other[from].iter().copied());
    }

    /// A number in binary over what stands there: a length, a count, a kind.
    fn set_binary(&mut self, input: &mut [u8]) {
        let width = [1, 2, 4, 8][self.rng.usize(..4)];
        if input.len() < width {
            return;
        }
        let place = self.rng.usize(..=input.len() - width);
        let number = self.number().to_be_bytes();
        input[place..place + width].copy_from_slice(&number[8 - width..]);
    }

    /// Another number in the place of one that is written in digits.
    fn set_digits(&mut self, input: &mut Vec<u8>) {
        let begins: Vec<usize> = (0..input.len())
            .filter(|place| input[*place].is_ascii_digit() && (*place == 0 || !input[place - 1].is_ascii_digit()))
            .collect();
        if begins.is_empty() {
            return;
        }
        let begin = begins[self.rng.usize(..begins.len())];
        let length = input[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.number().to_string().into_bytes();
        input.splice(begin..begin + length, number);
    }

    /// Another digit, perhaps a hexadecimal one, in the place of a letter or digit.
    fn set_digit(&mut self, input: &mut [u8]) {
        let places: Vec<usize> = (0..input.len())
            .filter(|place| input[*place].is_ascii_hexdigit())
            .collect();
        if !places.is_empty() {
            input[places[self.rng.usize(..places.len())]] = b"0123456789abcdef"[self.rng.usize(..16)];
        }
    }

    fn number(&mut self) -> u64 {
        match self.rng.u8(..4) {
            0 => NUMBERS[self.rng.usize(..NUMBERS.len())],
            1 => u64::from(self.rng.u8(..)),
            2 => u64::from(self.rng.u16(..)),
            _ => self.rng.u64(..),
        }
    }

    fn put_in_itself(&mut self, input: &mut Vec<u8>) {
        if input.len() <= KEPT_BYTES_MAX {
            let copy = input.clone();
            let place = self.place(input);
            input.splice(place..place, copy);
        }
    }
}

/// The words of a seed: letters and what joins them.
fn words(seed: &[u8]) -> Vec<Vec<u8>> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.#".contains(byte);
    let words = seed.split(|byte| !is_word(byte)).filter(|word| word.len() > 1);
    words.map(<[u8]>::to_vec).collect()
}
