//! Events between the steps of a program on different branches.

/// The events between the steps of a program.
pub struct Events {
    /// By step: the event of its end, if another step waits for it.
    pub done: Vec<Option<usize>>,
    /// The number of events.
    pub n_events: usize,
}

impl Events {
    /// From the waits of each step. An event is reused after all steps that wait for it are enqueued.
    pub fn new(waits: &[&[usize]]) -> Events {
        let n_steps = waits.len();
        let mut last_wait = vec![None; n_steps];
        for (number, waits) in waits.iter().enumerate() {
            waits.iter().for_each(|&wait| last_wait[wait] = Some(number));
        }
        let (mut done, mut free, mut n_events) = (vec![None; n_steps], vec![], 0);
        let mut in_use: Vec<(usize, usize)> = vec![];
        for number in 0..n_steps {
            // A step records its event after its own waits.
            let (over, rest): (Vec<_>, Vec<_>) = in_use.into_iter().partition(|&(last, _)| last <= number);
            free.extend(over.into_iter().map(|(_, event)| event));
            in_use = rest;
            if let Some(last) = last_wait[number] {
                let event = free.pop().unwrap_or_else(|| {
                    n_events += 1;
                    n_events - 1
                });
                done[number] = Some(event);
                in_use.push((last, event));
            }
        }
        Events { done, n_events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_reused_after_all_its_waits_are_enqueued() {
        // Alternating products and folds: each product waits for the fold before the previous one.
        let waits = |number: usize| match number {
            0 | 2 => vec![],
            number if number % 2 == 1 => vec![number - 1],
            number => vec![number - 3],
        };
        let waits: Vec<Vec<usize>> = (0..40).map(waits).collect();
        let Events { done, n_events } = Events::new(&waits.iter().map(|waits| &**waits).collect::<Vec<_>>());
        assert!(n_events <= 4, "{n_events}");
        for (number, waits) in waits.iter().enumerate() {
            for &wait in waits {
                let again = done[wait + 1..number].contains(&done[wait]);
                assert!(!again, "step {wait} and a later one share an event that step {number} waits for");
            }
        }
    }
}
