//! Columns of a chart in eighths of a cell.

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line of a chart, counted from the top. Zero is seen, a gap is not.
pub(in crate::console) fn line(series: &[Option<u64>], most: u64, height: u16, line: u16) -> String {
    series.iter().map(|value| bar(*value, most, height, line)).collect()
}

/// A cell of such a line.
pub(in crate::console) fn bar(value: Option<u64>, most: u64, height: u16, line: u16) -> char {
    let Some(value) = value else { return ' ' };
    let eighths = value.saturating_mul(u64::from(height) * 8).div_ceil(most.max(1));
    let below = u64::from(height.saturating_sub(line + 1)) * 8;
    let least = u64::from(below == 0);
    let index = usize::try_from(eighths.saturating_sub(below).max(least)).unwrap_or(8);
    BARS.get(index.min(8)).copied().unwrap_or('█')
}

/// A chart of one line whose least bar is an eighth; a gap is a space.
pub(in crate::console) fn spark(values: &[Option<u64>]) -> String {
    let most = values.iter().flatten().max().copied().unwrap_or(0).max(1);
    let bar = |value: &Option<u64>| {
        let above_least = value.map(|value| value.saturating_mul(7).div_ceil(most));
        let index = above_least.map_or(0, |above| usize::try_from(above).unwrap_or(7) + 1);
        BARS.get(index).copied().unwrap_or('█')
    };
    values.iter().map(bar).collect()
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

    #[test]
    fn a_sparkline_shows_anything_that_is_not_nothing() {
        assert_eq!(spark(&[0, 1, 50, 100].map(Some)), "▁▂▅█");
        assert_eq!(spark(&[0, 0].map(Some)), "▁▁");
        assert_eq!(spark(&[].map(Some)), "");
    }
}
