//! The order of contractions: the one of the fewest multiplications, found over all subsets of the operands.

use super::equation::Label;

/// A set of labels or of operands, by bits.
pub type Set = u64;

/// A tree of contractions.
#[derive(Clone, Debug)]
pub enum Tree {
    /// An operand.
    Operand(usize),
    /// The product of two.
    Pair(Box<Tree>, Box<Tree>),
}

/// The labels of the product of some operands: those that the result or another operand needs.
pub fn kept(operands: &[Set], output: Set, chosen: Set) -> Set {
    let of = |is_chosen: bool| {
        let members = operands.iter().enumerate().filter(move |(i, _)| (chosen >> i & 1 == 1) == is_chosen);
        members.fold(0, |labels, (_, set)| labels | set)
    };
    of(true) & (of(false) | output)
}

/// The best tree of all operands. `operands` holds the labels of each.
pub fn best(operands: &[Set], output: Set, extents: &[usize]) -> Tree {
    let all: Set = (1 << operands.len()) - 1;
    let mut found: Vec<Option<(f64, Tree)>> = vec![None; all as usize + 1];
    for (i, _) in operands.iter().enumerate() {
        found[1 << i] = Some((0.0, Tree::Operand(i)));
    }
    for chosen in 1..=all {
        let mut half = (chosen - 1) & chosen;
        // Each pair of halves comes twice. The half with the lowest operand is the left one.
        while half > 0 {
            let other = chosen & !half;
            if half.trailing_zeros() == chosen.trailing_zeros()
                && let (Some((left_cost, left)), Some((right_cost, right))) =
                    (&found[half as usize], &found[other as usize])
            {
                let labels = kept(operands, output, half) | kept(operands, output, other);
                let cost = left_cost + right_cost + points(labels, extents);
                if found[chosen as usize].as_ref().is_none_or(|(least, _)| cost < *least) {
                    let tree = Tree::Pair(Box::new(left.clone()), Box::new(right.clone()));
                    found[chosen as usize] = Some((cost, tree));
                }
            }
            half = (half - 1) & chosen;
        }
    }
    found.pop().flatten().map_or(Tree::Operand(0), |(_, tree)| tree)
}

/// The multiplications of a product that has these labels on either side.
fn points(labels: Set, extents: &[usize]) -> f64 {
    extents.iter().enumerate().filter(|(label, _)| labels >> label & 1 == 1).map(|(_, &n)| n as f64).product()
}

/// The set of these labels.
pub fn set(labels: &[Label]) -> Set {
    labels.iter().fold(0, |set, label| set | 1 << label)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as text: `((a b) c)`.
    fn text(tree: &Tree) -> String {
        match tree {
            Tree::Operand(i) => ["a", "b", "c", "d"][*i].to_owned(),
            Tree::Pair(left, right) => format!("({} {})", text(left), text(right)),
        }
    }

    #[test]
    fn a_chain_of_matrices_starts_where_it_is_narrow() {
        // ij,jk,kl->il
        let operands = [0b0011, 0b0110, 0b1100];
        assert_eq!(text(&best(&operands, 0b1001, &[2, 100, 3, 100])), "((a b) c)");
        assert_eq!(text(&best(&operands, 0b1001, &[100, 3, 100, 2])), "(a (b c))");
    }

    #[test]
    fn factors_with_a_common_axis_come_before_an_outer_product() {
        // i,j,ij-> : each vector meets the matrix.
        assert_eq!(text(&best(&[0b01, 0b10, 0b11], 0, &[50, 60])), "(a (b c))");
    }
}
