//! Patterns of the names of parameters.

/// A path with variables: `blocks.{i}.ln.g`.
pub(crate) struct Pattern<'p>(Vec<Part<'p>>);

/// One part of a pattern between dots.
enum Part<'p> {
    Word(&'p str),
    Variable(&'p str),
}

impl<'p> Pattern<'p> {
    /// Reads a pattern; `None` if its braces do not enclose whole parts that are names.
    pub(crate) fn read(text: &'p str) -> Option<Pattern<'p>> {
        let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let part = |part: &'p str| match part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => is_name(name).then_some(Part::Variable(name)),
            None => (!has_braces(part)).then_some(Part::Word(part)),
        };
        text.split('.').map(part).collect::<Option<_>>().map(Pattern)
    }

    /// The parts of a path that the variables stand for, if the path fits. A variable stands for one part everywhere.
    pub(crate) fn parts_of<'n>(&self, path: &'n str) -> Option<Vec<(&'p str, &'n str)>> {
        let mut parts: Vec<(&str, &str)> = vec![];
        let mut path = path.split('.');
        for part in &self.0 {
            let found = path.next()?;
            match part {
                Part::Word(word) if *word == found => (),
                Part::Word(_) => return None,
                Part::Variable(name) => match parts.iter().find(|(known, _)| known == name) {
                    Some((_, earlier)) if *earlier != found => return None,
                    Some(_) => (),
                    None => parts.push((name, found)),
                },
            }
        }
        path.next().is_none().then_some(parts)
    }
}

/// Whether a name is a pattern with variables.
pub(crate) fn has_braces(name: &str) -> bool {
    name.contains(['{', '}'])
}

/// Whether a name is the pattern, in which `*` stands for any run of characters.
pub(crate) fn matches_stars(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// The name nearest to a pattern.
pub(crate) fn nearest_to<'n>(pattern: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let plain = pattern.replace(['*', '{', '}'], "");
    names.into_iter().min_by_key(|name| strsim::osa_distance(&plain, name))
}

#[cfg(test)]
mod tests {
    use super::matches_stars;

    #[test]
    fn stars_stand_for_any_run_of_characters() {
        for (pattern, name) in [
            ("w", "w"),
            ("*", ""),
            ("*", "a.b"),
            ("*.bias", "fc.1.bias"),
            ("embed.*", "embed."),
            ("a*b*c", "abc"),
            ("a*b*c", "a.b.b.c"),
            ("*ab", "aab"),
            ("**", "x"),
            ("a*a", "aa"),
        ] {
            assert!(matches_stars(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("w", "w1"),
            ("", "w"),
            ("*.bias", "bias"),
            ("embed.*", "head.embed.w"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("a*bc*c", "abc"),
        ] {
            assert!(!matches_stars(pattern, name), "{pattern} {name}");
        }
    }
}
