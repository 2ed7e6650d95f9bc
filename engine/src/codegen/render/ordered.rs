//! A fixed order for declarations that CubeCL writes in the order of a hash map. That order differs between
//! processes, and texts are compared with golden files and are the keys of compiled kernels on disk.

/// The text with its vector types in alphabetical order. CubeCL writes them in the order of a hash set.
pub fn with_vectors_in_order(text: &str) -> String {
    const START: &str = "\nstruct __align__(";
    const END: &str = "\n};";
    let mut vectors = vec![];
    let (before, mut after) = text.split_at(text.find(START).unwrap_or(text.len()));
    while after.starts_with(START) {
        let Some(end) = after.find(END) else { break };
        let (vector, rest) = after.split_at(end + END.len());
        vectors.push(vector);
        after = rest;
    }
    vectors.sort_unstable_by_key(|vector| vector.split_once(')').map(|(_, name)| name));
    [before, &vectors.concat(), after].concat()
}

/// The text with neighbouring declarations of variables, such as `float l_mut_7;` and `var l_mut_7: f32;`, in the order
/// of their numbers. CubeCL writes them in the order of a hash map. Other statements stay where they are, also those that
/// end in a variable, such as `x = y - l_mut_7;`.
pub fn with_declarations_in_order(text: &str) -> String {
    let number = |line: &str| {
        let (ty, declared) = line.trim_start().strip_suffix(';')?.split_once(" l_mut_")?;
        let is_type = ty != "return" && ty.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        let (number, _) = declared.split_once(": ").unwrap_or((declared, ""));
        if is_type { number.parse::<usize>().ok() } else { None }
    };
    let lines: Vec<&str> = text.split('\n').collect();
    let runs = lines.chunk_by(|a, b| number(a).is_some() && number(b).is_some());
    let sorted = runs.flat_map(|run| {
        let mut run = run.to_vec();
        run.sort_by_key(|line| number(line));
        run
    });
    sorted.collect::<Vec<_>>().join("\n")
}

/// The text with its arrays of shared memory laid out in the order of their names, and their total bytes if there
/// are several. CubeCL lays them out in the order of a hash map.
pub fn with_shared_in_order(text: &str) -> (String, Option<usize>) {
    const SIZE: &str = "// Shared array size: ";
    let lines: Vec<&str> = text.split('\n').collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].starts_with(SIZE)).collect();
    let (Some(&first), true) = (starts.first(), starts.len() > 1) else { return (text.to_string(), None) };
    let mut arrays: Vec<[&str; 2]> = starts.iter().map(|&i| [lines[i], lines[i + 1]]).collect();
    arrays.sort_unstable_by_key(|[_, declared]| declared.split_once("shared_memory_").map(|(_, name)| name));
    let mut end: usize = 0;
    let mut sorted: Vec<String> = lines[..first].iter().map(ToString::to_string).collect();
    for [size, declared] in arrays {
        let bytes = size.rsplit(' ').nth(1).and_then(|bytes| bytes.parse::<usize>().ok());
        let (Some(bytes), Some((before, _))) = (bytes, declared.rsplit_once('[')) else {
            crate::bug!("shared memory is declared as `{declared}`")
        };
        sorted.extend([size.to_string(), format!("{before}[{end}]);")]);
        end = (end + bytes).next_multiple_of(SHARED_ALIGNMENT);
    }
    sorted.extend(lines[first + 2 * starts.len()..].iter().map(ToString::to_string));
    (sorted.join("\n"), Some(end))
}

/// The alignment of arrays in shared memory, in bytes.
const SHARED_ALIGNMENT: usize = 16;

#[cfg(test)]
mod tests {
    use super::with_declarations_in_order;

    #[test]
    fn declarations_are_sorted_and_statements_are_not() {
        let given = "float l_mut_9;\nuint32 l_mut_10;\nbool l_mut_2;\n\
                     words[l_3] = l_mut_8;\nl_mut_8 = l_mut_7;\nconst uint32 l_5 = l_4 - l_mut_6;\n\
                     var l_mut_3: f32;\nvar l_mut_1: vec2<u32>;\nreturn l_mut_0;";
        let expected = "bool l_mut_2;\nfloat l_mut_9;\nuint32 l_mut_10;\n\
                        words[l_3] = l_mut_8;\nl_mut_8 = l_mut_7;\nconst uint32 l_5 = l_4 - l_mut_6;\n\
                        var l_mut_1: vec2<u32>;\nvar l_mut_3: f32;\nreturn l_mut_0;";
        assert_eq!(with_declarations_in_order(given), expected);
    }
}
