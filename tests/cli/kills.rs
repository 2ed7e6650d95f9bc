//! Processes that are killed while they save.

use super::*;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Saves 8 MiB again and again. All elements are the number of the trip.
const SAVING: &str = r#"(
  params: {"x": (type: "f32[2048, 1024]", state: true)},
  nodes: {"next": "x + 1.0"},
  stages: {
    "step": Run(state: {"x": "next"}),
    "save": Save(path: "state.safetensors"),
    "turns": Repeat(stages: ["step", "save"], times: 1000000),
  },
)"#;
const STATE: &str = "state.safetensors";
const N_KILLS: u64 = 20;

/// The names of files in a folder, without those of the graph and of the state.
fn others(desk: &Desk) -> Vec<String> {
    let entries = fs::read_dir(desk.dir.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !["saving.ron", "tiny.ron", STATE].contains(&name.as_str())).collect()
}

fn changed(desk: &Desk) -> Option<SystemTime> {
    fs::metadata(desk.path(STATE)).and_then(|found| found.modified()).ok()
}

/// Runs the graph until it has saved, and kills it a moment later.
fn run_and_kill(desk: &Desk, moment: Duration) {
    let before = changed(desk);
    let mut running = desk.command(&["run", "saving.ron", "--device", "cpu", "--quiet"]).spawn().unwrap();
    let start = Instant::now();
    while changed(desk) == before {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is saved");
        assert!(running.try_wait().unwrap().is_none(), "the run ended");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(moment);
    running.kill().unwrap();
    running.wait().unwrap();
}

/// The file is that of one trip, the last one or the one before. Leftovers have names that are never read, and the next run
/// removes them.
#[test]
fn a_process_that_is_killed_while_it_saves_leaves_a_whole_file() {
    let desk = Desk::new();
    desk.write("saving.ron", SAVING);
    let mut n_cut = 0;
    for number in 0..N_KILLS {
        run_and_kill(&desk, Duration::from_millis(number * 37 % 61));
        // Reading compares the checksums of all tensors.
        let saved = desk.checkpoint(STATE);
        let elements = saved.tensors["x"].as_slice::<f32>().unwrap();
        assert!(elements[0] >= 1.0 && elements.iter().all(|x| *x == elements[0]), "kill {number}");
        let left = others(&desk);
        let is_leftover = |name: &String| name.starts_with(&format!(".{STATE}.")) && name.ends_with(".tmp");
        assert!(left.len() <= 1 && left.iter().all(is_leftover), "kill {number}: {left:?}");
        n_cut += left.len();
    }
    assert!(n_cut > 0, "no kill hit a file that was being written");
    let few = ["run", "saving.ron", "--device", "cpu", "--quiet", "--set", "turns.times=2"];
    assert_eq!(desk.engine(&few).code, 0);
    assert_eq!(desk.checkpoint(STATE).tensors["x"].as_slice::<f32>().unwrap()[0], 2.0);
    assert_eq!(others(&desk), [] as [&str; 0]);
}
