//! Graphs as pictures: boxes in layers. A box is below all boxes whose results it reads. An edge that crosses a layer has
//! a lane of its own there (Sugiyama, Tagawa and Toda, 1981).

use std::fmt::Write;

use super::written::escaped;

/// A graph to draw.
pub(super) struct Picture {
    pub(super) boxes: Vec<Box>,
    /// Pairs of boxes: the writer of a value and its later reader, in the order of the readers.
    pub(super) edges: Vec<(usize, usize)>,
}

/// A box with two lines of text.
pub(super) struct Box {
    pub(super) title: String,
    pub(super) lines: [String; 2],
    /// The class of its colour.
    pub(super) class: &'static str,
}

const BOX: (f64, f64) = (190.0, 46.0);
const LANE: f64 = 10.0;
const GAP: (f64, f64) = (18.0, 36.0);

/// A place in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Box(usize),
    /// An edge that crosses the layer, by its number.
    Lane(usize),
}

impl Picture {
    /// The picture as SVG.
    pub(super) fn svg(&self) -> String {
        let layers = layers(self.boxes.len(), &self.edges);
        let places = placed(&layers, &self.edges);
        let slots = || places.iter().flatten();
        let width = slots().map(|(slot, x)| x + width(*slot) / 2.0 + 4.0).fold(0.0, f64::max);
        let height = layers.len() as f64 * (BOX.1 + GAP.1) - GAP.1 + 8.0;
        let mut text = format!(
            "<div class=\"wide\"><svg class=\"graph\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\">"
        );
        for (edge, (from, to)) in self.edges.iter().enumerate() {
            let belongs = |slot: Slot| [Slot::Box(*from), Slot::Box(*to), Slot::Lane(edge)].contains(&slot);
            let _ = write!(text, "<path class=\"edge\" d=\"{}\"/>", way(&places, &belongs));
        }
        for (layer, slots) in places.iter().enumerate() {
            for (slot, x) in slots {
                if let Slot::Box(number) = slot {
                    text.push_str(&self.boxes[*number].drawn(x - BOX.0 / 2.0, top(layer)));
                }
            }
        }
        text + "</svg></div>\n"
    }
}

impl Box {
    fn drawn(&self, x: f64, y: f64) -> String {
        let [first, second] = self.lines.each_ref().map(|line| escaped(&shortened(line)));
        format!(
            "<g><title>{}</title><rect class=\"box {}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{}\" height=\"{}\" rx=\"5\"/>\
<text x=\"{:.0}\" y=\"{:.0}\">{first}</text><text class=\"soft\" x=\"{:.0}\" y=\"{:.0}\">{second}</text></g>",
            escaped(&self.title),
            self.class,
            BOX.0,
            BOX.1,
            x + 8.0,
            y + 19.0,
            x + 8.0,
            y + 36.0,
        )
    }
}

fn shortened(name: &str) -> String {
    const MOST: usize = 24;
    match name.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_string(),
    }
}

/// Boxes by layer, and the edges that cross each layer.
fn layers(n_boxes: usize, edges: &[(usize, usize)]) -> Vec<Vec<Slot>> {
    let mut layer_of = vec![0; n_boxes];
    for &(from, to) in edges {
        layer_of[to] = layer_of[to].max(layer_of[from] + 1);
    }
    let mut layers = vec![vec![]; layer_of.iter().max().map_or(0, |last| last + 1)];
    for (number, &layer) in layer_of.iter().enumerate() {
        layers[layer].push(Slot::Box(number));
    }
    for (edge, &(from, to)) in edges.iter().enumerate() {
        for layer in &mut layers[layer_of[from] + 1..layer_of[to]] {
            layer.push(Slot::Lane(edge));
        }
    }
    layers
}

/// The slots of each layer in order, with their centres. A slot is below its sources, as far as there is room.
fn placed(layers: &[Vec<Slot>], edges: &[(usize, usize)]) -> Vec<Vec<(Slot, f64)>> {
    let mut places: Vec<Vec<(Slot, f64)>> = vec![];
    for slots in layers {
        let centre =
            |slot: Slot| places.iter().flatten().rev().find(|(known, _)| *known == slot).map(|(_, x)| *x);
        let wanted = |slot: Slot| {
            let sources: Vec<f64> = match slot {
                Slot::Lane(edge) => {
                    centre(slot).or_else(|| centre(Slot::Box(edges[edge].0))).into_iter().collect()
                }
                Slot::Box(number) => {
                    let into = edges.iter().enumerate().filter(|(_, (_, to))| *to == number);
                    let above = |(edge, (from, _)): (usize, &(usize, usize))| {
                        centre(Slot::Lane(edge)).or_else(|| centre(Slot::Box(*from)))
                    };
                    into.filter_map(above).collect()
                }
            };
            sources.iter().sum::<f64>() / sources.len().max(1) as f64
        };
        let mut ordered: Vec<(Slot, f64)> = slots.iter().map(|&slot| (slot, wanted(slot))).collect();
        ordered.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut free = 4.0;
        for (slot, x) in &mut ordered {
            let half = width(*slot) / 2.0;
            *x = x.max(free + half);
            free = *x + half + GAP.0;
        }
        places.push(ordered);
    }
    places
}

fn width(slot: Slot) -> f64 {
    if matches!(slot, Slot::Box(_)) { BOX.0 } else { LANE }
}

fn top(layer: usize) -> f64 {
    layer as f64 * (BOX.1 + GAP.1) + 4.0
}

/// The path of an edge through its slots: straight across layers, bent between them.
fn way(places: &[Vec<(Slot, f64)>], belongs: &dyn Fn(Slot) -> bool) -> String {
    let mut path = String::new();
    for (layer, slots) in places.iter().enumerate() {
        let Some((slot, x)) = slots.iter().find(|(slot, _)| belongs(*slot)) else { continue };
        let (above, below) = (top(layer), top(layer) + BOX.1);
        if path.is_empty() {
            let _ = write!(path, "M{x:.0} {below:.0}");
            continue;
        }
        let bend = above - GAP.1 / 2.0;
        let _ = write!(path, "S{x:.0} {bend:.0} {x:.0} {above:.0}");
        if matches!(slot, Slot::Lane(_)) {
            let _ = write!(path, "V{below:.0}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_past_a_layer_has_a_lane_there() {
        let edges = [(0, 1), (1, 2), (0, 2)];
        let layers = layers(3, &edges);
        let expected = [vec![Slot::Box(0)], vec![Slot::Box(1), Slot::Lane(2)], vec![Slot::Box(2)]];
        assert_eq!(layers, expected);
        let places = placed(&layers, &edges);
        let (in_box, lane) = (places[1][0].1, places[1][1].1);
        assert!(lane - LANE / 2.0 >= in_box + BOX.0 / 2.0 + GAP.0, "{places:?}");
        let path = way(&places, &|slot| [Slot::Box(0), Slot::Lane(2), Slot::Box(2)].contains(&slot));
        assert!(path.starts_with("M99 50S") && path.contains('V') && path.ends_with(" 168"), "{path}");
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"é".repeat(40)), format!("{}…", "é".repeat(24)));
    }
}
