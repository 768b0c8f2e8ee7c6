//! Columns of a chart in eighths of a cell.

use crate::console::state::tracks::Series;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line of a chart, counted from the top. Zero is seen, a gap is not.
pub(in crate::console) fn line(series: &Series, most: u64, height: u16, line: u16) -> String {
    series.iter().map(|value| bar(*value, most, height, line)).collect()
}

fn bar(value: Option<u64>, most: u64, height: u16, line: u16) -> char {
    let Some(value) = value else { return ' ' };
    let eighths = value.saturating_mul(u64::from(height) * 8).div_ceil(most.max(1));
    let below = u64::from(height.saturating_sub(line + 1)) * 8;
    let least = u64::from(below == 0);
    let index = usize::try_from(eighths.saturating_sub(below).max(least)).unwrap_or(8);
    BARS.get(index.min(8)).copied().unwrap_or('█')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_seen_and_a_gap_is_not() {
        let series = vec![Some(0), None, Some(8), Some(16)];
        assert_eq!(line(&series, 16, 2, 0), "   █");
        assert_eq!(line(&series, 16, 2, 1), "▁ ██");
    }
}
