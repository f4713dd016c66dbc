//! Aligned columns for a terminal of 80 columns.

/// The width that every terminal has.
pub const WIDTH: usize = 80;
const GAP: usize = 2;

enum Line {
    Text(String),
    Row(Vec<String>),
}

/// Two header lines, and whether cells are words: those align to the left.
pub type Head<'a> = ([&'a str; 2], bool);

/// Rows of cells under fixed columns; a column is as wide as its widest cell.
pub struct Grid<'a> {
    columns: Vec<Head<'a>>,
    lines: Vec<Line>,
}

impl<'a> Grid<'a> {
    /// A grid without rows.
    pub fn new(columns: impl IntoIterator<Item = Head<'a>>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            lines: Vec::new(),
        }
    }

    /// Adds a line of text over all columns.
    pub fn text(&mut self, text: String) {
        self.lines.push(Line::Text(text));
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If there is not one cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.lines.push(Line::Row(cells));
    }

    /// The grid as lines of at most [`WIDTH`] columns. If rows are wider, their first cell takes a
    /// line of its own.
    pub fn render(&self) -> String {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|nth| self.width(nth)).collect();
        let sum = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
        let is_broken = sum(&widths) > WIDTH;
        if is_broken {
            widths[0] = GAP;
        }
        let heads = [0, 1].map(|nth| {
            let head = self.columns.iter().map(|(head, _)| head[nth].to_owned());
            self.line(&head.collect::<Vec<_>>(), &widths)
        });
        let rule = "─".repeat(sum(&widths).min(WIDTH));
        let mut text = format!("{}{}{rule}\n", heads[0], heads[1]);
        for line in &self.lines {
            text += &match line {
                Line::Text(text) => wrapped(text, 2),
                Line::Row(cells) => self.line(cells, &widths),
            };
        }
        text
    }

    fn width(&self, nth: usize) -> usize {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Row(cells) => Some(cells[nth].as_str()),
            Line::Text(_) => None,
        });
        let all = cells.chain(self.columns[nth].0);
        all.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut text = String::new();
        for (nth, cell) in cells.iter().enumerate() {
            let width = widths[nth];
            if nth > 0 {
                text += &" ".repeat(GAP);
            } else if cell.chars().count() > width {
                text += &format!("{cell}\n{}", " ".repeat(width));
                continue;
            }
            text += &match self.columns[nth].1 {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            };
        }
        format!("{}\n", text.trim_end())
    }
}

/// A text as lines of at most [`WIDTH`] columns where words allow it; further lines are indented.
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut column = text.len() - text.trim_start().len();
    let mut lines = " ".repeat(column);
    for (nth, word) in text.split_whitespace().enumerate() {
        let width = word.chars().count();
        if nth > 0 && column + 1 + width > WIDTH {
            lines += &format!("\n{}", " ".repeat(indent));
            column = indent;
        } else if nth > 0 {
            lines += " ";
            column += 1;
        }
        lines += word;
        column += width;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_first_cell_takes_a_line() {
        let mut grid = Grid::new([(["name", ""], true), (["figure", ""], false)]);
        grid.row(vec!["n".repeat(70), "1".repeat(12)]);
        grid.row(vec!["n".into(), "2".into()]);
        let text = grid.render();
        let rows = text.lines().skip_while(|line| !line.starts_with('─'));
        let lines: Vec<&str> = rows.skip(1).collect();
        let expected = ["n".repeat(70), format!("    {}", "1".repeat(12))];
        assert_eq!(lines[..2], expected);
        assert_eq!(lines[2], format!("n   {:>12}", "2"));
    }

    #[test]
    fn texts_are_wrapped_at_words() {
        let text = wrapped(&"word ".repeat(40), 2);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")));
        assert_eq!(wrapped("  short", 2), "  short\n");
        assert_eq!(wrapped(&"x".repeat(90), 2), "x".repeat(90) + "\n");
    }
}
