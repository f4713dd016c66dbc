//! The output of a guest on its serial line: a section for each command, with its exit status.

/// The output of one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    pub name: String,
    pub text: String,
    /// `None` if the machine ended first.
    pub status: Option<i32>,
}

/// All sections, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Serial {
    pub sections: Vec<Section>,
    /// Whether the guest came to its end.
    pub done: bool,
}

impl Serial {
    pub fn read(text: &str) -> Serial {
        let mut serial = Serial {
            sections: Vec::new(),
            done: false,
        };
        let mut open: Option<Section> = None;
        for line in text.lines() {
            let Some(title) = line.strip_prefix("=== ") else {
                if let Some(section) = &mut open {
                    section.text.push_str(line);
                    section.text.push('\n');
                }
                continue;
            };
            let mut words = title.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("done"), None, None) => serial.done = true,
                (Some("end"), Some(_), Some(status)) => {
                    if let Some(section) = open.take() {
                        let status = status.parse().ok();
                        serial.sections.push(Section { status, ..section });
                    }
                }
                (Some(name), ..) => {
                    serial.sections.extend(open.replace(Section {
                        name: name.into(),
                        text: String::new(),
                        status: None,
                    }));
                }
                (None, ..) => {}
            }
        }
        serial.sections.extend(open);
        serial
    }

    /// # Errors
    /// The guest did not run it.
    pub fn section(&self, name: &str) -> Result<&Section, String> {
        let mut sections = self.sections.iter();
        let found = sections.find(|section| section.name == name);
        found.ok_or_else(|| format!("the guest did not reach `{name}`"))
    }
}

impl Section {
    /// The values of a name in JSON with a value on each line, in order; `null` and lists are left
    /// out.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let key = format!("\"{name}\":");
        let lines = self.text.lines();
        let values = lines.filter_map(|line| line.trim().strip_prefix(&key));
        let values = values.map(|value| value.trim().trim_end_matches(',').trim_matches('"'));
        values
            .filter(|value| *value != "null" && *value != "[")
            .collect()
    }

    /// The same as numbers; those that are none are left out.
    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let values = self.values(name);
        values
            .iter()
            .filter_map(|value| value.parse().ok())
            .collect()
    }

    /// The value of a name in lines like `name value`.
    pub fn word(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values.next().map(str::trim)
    }

    /// The part that begins with the line whose `name` is `value`, up to the next line of that
    /// name.
    pub fn part(&self, name: &str, value: &str) -> Section {
        let key = format!("\"{name}\":");
        let mut within = false;
        let mut text = String::new();
        for line in self.text.lines() {
            if line.trim().starts_with(&key) {
                within = line.contains(&format!("\"{value}\""));
            }
            if within {
                text.push_str(line);
                text.push('\n');
            }
        }
        Section {
            name: format!("{} {value}", self.name),
            text,
            status: self.status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "early noise\n=== one\n\"a\": 1,\n  \"a\": 2\n\"b\": null,\nx 7\n=== end one 0\n\
                        === two\n\"p\": \"q\",\n\"n\": 3\n\"p\": \"r\",\n\"n\": 4\n=== end two 3\n=== three\ncut";

    #[test]
    fn sections_have_their_text_and_status() {
        let serial = Serial::read(SAID);
        let status: Vec<_> = serial
            .sections
            .iter()
            .map(|section| section.status)
            .collect();
        assert_eq!(status, [Some(0), Some(3), None]);
        assert_eq!(serial.section("three").unwrap().text, "cut\n");
        assert!(serial.section("four").unwrap_err().contains("`four`"));
        assert!(!serial.done && Serial::read("=== done\n").done);
    }

    #[test]
    fn values_are_read_by_name() {
        let serial = Serial::read(SAID);
        let one = serial.section("one").unwrap();
        assert_eq!(one.numbers("a"), [1, 2]);
        assert!(one.numbers("b").is_empty());
        assert_eq!(one.word("x"), Some("7"));
        let part = serial.section("two").unwrap().part("p", "r");
        assert_eq!(part.numbers("n"), [4]);
    }
}
