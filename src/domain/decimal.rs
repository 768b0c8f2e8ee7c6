//! Numbers in all their digits: what two texts write is compared, and nothing is rounded.

use std::cmp::Ordering;

/// A number as JSON or a person writes it.
#[derive(Clone, Debug)]
pub struct Decimal {
    negative: bool,
    /// Without zeros at either end; empty: zero.
    digits: String,
    /// The point stands before the first digit, moved so many places to the right.
    exponent: i64,
}

impl Decimal {
    /// `-12.50e3`; nothing else is a number.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (negative, plain) = match text.strip_prefix('-') {
            Some(plain) => (true, plain),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, power) = match plain.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse().ok()?),
            None => (plain, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let all = format!("{whole}{fraction}");
        if whole.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_start_matches('0');
        let leading = all.len() - significant.len();
        let digits = significant.trim_end_matches('0').to_owned();
        let places = i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
        Some(if digits.is_empty() {
            Self {
                negative: false,
                digits,
                exponent: 0,
            }
        } else {
            Self {
                negative,
                digits,
                exponent: places.saturating_add(power),
            }
        })
    }

    /// Which of two is greater.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        signs.then_with(|| {
            let sizes = self.exponent.cmp(&other.exponent);
            let sizes = sizes.then_with(|| self.digits.cmp(&other.digits));
            if self.negative { sizes.reverse() } else { sizes }
        })
    }

    const fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_by_all_their_digits() {
        let ordered = [
            "-1e30",
            "-10.5",
            "-10.25",
            "-1",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000000001",
            "5",
            "12",
            "120",
            "9007199254740992",
            "9007199254740993",
            "9007199254740993.5",
            "18446744073709551616",
            "1e400",
        ];
        for (place, one) in ordered.iter().enumerate() {
            for (other_place, other) in ordered.iter().enumerate() {
                let (one, other) = (Decimal::read(one).unwrap(), Decimal::read(other).unwrap());
                assert_eq!(one.compare(&other), place.cmp(&other_place), "{one:?} {other:?}");
            }
        }
        for same in [
            ["5", "5.0"],
            ["-0", "0"],
            ["1e3", "1000"],
            ["0.5", "+5E-1"],
            ["0e9", "0.00"],
        ] {
            let [one, other] = same.map(|text| Decimal::read(text).unwrap());
            assert_eq!(one.compare(&other), Ordering::Equal, "{same:?}");
        }
        for wrong in [
            "", "-", ".5", "5.", "1e", "1e5.0", "abc", "1 ", "0x1", "--1", "inf", "NaN", "1k",
        ] {
            assert!(Decimal::read(wrong).is_none(), "{wrong}");
        }
    }
}
