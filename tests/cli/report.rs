//! The report as a page, and its layout in a browser.

use super::*;

#[test]
fn the_report_can_be_a_page_that_needs_nothing_else() {
    let desk = Desk::new();
    desk.run(&["--report", "report.html"]);
    let page = fs::read_to_string(desk.path("report.html")).unwrap();
    assert!(page.contains(" in stage train.</p>"), "the stage of most memory is named");
    let parts = [
        "<code>engine run tiny.ron --device cpu --report report.html</code>",
        "<td>train.optimizer.lr</td><td>3e-3</td>",
        ">loss<tspan",
        ">accuracy<tspan",
        ">learning rate lr</text>",
        "Kernels of a step",
        "µs in kernels.",
        "Memory over the launches",
    ];
    for part in parts {
        assert!(page.contains(part), "{part}");
    }
    let n_threads = std::thread::available_parallelism().unwrap();
    let machine = format!(
        "engine {}, {} {}, {n_threads} processors. Device cpu",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    assert!(page.replace(", debug build", "").contains(&machine), "{machine}");
    // Every opened tag is closed, and nothing is loaded from the network.
    for tag in ["svg", "table", "tr", "td", "g", "text", "body", "html", "details", "summary"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(!page.contains("http") && !page.contains("src=") && !page.contains("href="));
    assert!(page.contains("on the built-in") || page.contains("synthetic"), "a stand-in is named");
}

/// Inspects the page after its layout. It finds overlapping texts in a picture, and texts outside their picture or box.
/// It counts each kind of element.
const LOOK: &str = r#"<script>
const of = (e, s) => [...e.querySelectorAll(s)];
of(document, "details").forEach(e => e.open = true);
const box = e => e.getBoundingClientRect();
const name = e => e.textContent + " ";
let faults = "";
for (const svg of of(document, "svg")) {
  const texts = of(svg, "text"), frame = box(svg);
  texts.forEach((a, i) => {
    const p = box(a);
    if (p.left < frame.left - 1 || p.right > frame.right + 1 || p.top < frame.top - 1 || p.bottom > frame.bottom + 1)
      faults += "leaves the picture: " + name(a);
    const rect = a.parentNode.querySelector(":scope > rect");
    if (a.parentNode.tagName == "g" && rect && p.right > box(rect).right) faults += "leaves its box: " + name(a);
    for (const b of texts.slice(i + 1)) {
      const q = box(b);
      if (p.left < q.right && q.left < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom)
        faults += "overlap: " + name(a) + "/ " + name(b);
    }
  });
  for (const edge of of(svg, ".edge")) for (const rect of of(svg, "rect.box")) {
    const r = rect.getBBox(), n = edge.getTotalLength();
    for (let i = 0; i <= n; i += 2) {
      const p = edge.getPointAtLength(i);
      if (p.x > r.x + 1 && p.x < r.x + r.width - 1 && p.y > r.y + 1 && p.y < r.y + r.height - 1) {
        faults += "an edge crosses " + name(rect.parentNode); break;
      }
    }
  }
}
const ink = getComputedStyle(document.body).color, page = getComputedStyle(document.body).backgroundColor;
document.body.dataset.look = JSON.stringify({faults, ink, page, curves: of(document, "polyline").length,
  boxes: of(document, ".kernels rect.box").length, edges: of(document, ".kernels .edge").length,
  rows: of(document, "table.kernels tr").length, bars: of(document, "rect.bar").length});
</script>"#;

/// The browser. `ENGINE_REQUIRE=browser` requires it.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
    assert!(found.is_some() || !required.split(',').any(|one| one == "browser"), "there is no browser");
    if found.is_none() {
        eprintln!("skipped: there is no browser to open the report in");
    }
    found
}

#[test]
fn the_report_is_laid_out_by_a_browser() {
    let Some(browser) = browser() else { return };
    let desk = Desk::new();
    desk.run(&["--report", "report.html"]);
    let page = fs::read_to_string(desk.path("report.html")).unwrap();
    desk.write("looked.html", page.replace("</body>", &format!("{LOOK}</body>")));
    for scheme in ["1", "0"] {
        let open = |arguments: &[&str], file: &str| {
            let mut command = Command::new(browser);
            let settings = format!("--blink-settings=preferredColorScheme={scheme}");
            let profile = format!("--user-data-dir={}", desk.path("profile").display());
            command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,3000"]);
            command.args([settings, profile]).args(arguments).arg(desk.path(file));
            let shown = command.current_dir(desk.path("")).output().unwrap();
            assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
            String::from_utf8(shown.stdout).unwrap()
        };
        let dom = open(&["--dump-dom"], "looked.html");
        let look =
            dom.split("data-look=\"").nth(1).unwrap().split('"').next().unwrap().replace("&quot;", "\"");
        let look: Value = serde_json::from_str(&look).unwrap();
        assert_eq!(look["faults"], "");
        // The loss of steps and of epochs, the accuracy, the learning rate and the speed. Nine kernels of training and some of the evaluation have a box, a row and a bar each.
        assert_eq!(look["curves"], 5);
        let n = |what: &str| look[what].as_u64().unwrap();
        assert!(n("boxes") > 10 && n("edges") >= n("boxes") - 4, "{look}");
        assert_eq!((n("rows"), n("bars")), (n("boxes") + 2, n("boxes")), "{look}");
        let ink = look["ink"].as_str().unwrap();
        assert_eq!(ink == "rgb(34, 34, 34)", scheme == "1", "{look}");

        open(&["--screenshot=page.png"], "report.html");
        let picture = fs::read(desk.path("page.png")).unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000, "{} bytes", picture.len());
    }
}

/// The copies of a repeated layer are one box, and a call within it opens into a picture of its own.
#[test]
fn the_picture_of_a_deep_model_is_small() {
    let desk = Desk::new();
    let deep = r#"(
        functions: {
            "Residual": (
                inputs: {"x": "[..., D]"}, layers: {"up": "Linear(width=D)"}, output: "x + relu(up(x))",
            ),
        },
        nodes: {"x": "uniform(shape=[4, 8])", "y": "Residual(x, repeat=12)", "z": "sum(y)"},
        stages: {"go": Run(outputs: ["z"])},
    )"#;
    desk.write("deep.ron", deep);
    let ended = desk.engine(&["run", "deep.ron", "--device", "cpu", "--report", "deep.html"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let page = fs::read_to_string(desk.path("deep.html")).unwrap();
    let (_, graph) = page.split_once("<h2>Graph</h2>").unwrap();
    let (graph, _) = graph.split_once("<h2>").unwrap();
    // x, y and z; in y its operand, a layer, relu and a sum; in the layer its operand, a product and a sum.
    assert_eq!(graph.matches("class=\"box ").count(), 3 + 4 + 3, "{graph}");
    assert_eq!(graph.matches("<summary>y <small>Residual ×12</small></summary>").count(), 1, "{graph}");
    assert_eq!(graph.matches("<summary>up <small>Linear</small></summary>").count(), 1, "{graph}");
}

/// The outermost picture of a GPT of 12 layers fits a screen of 1,280 by 720.
#[test]
fn the_picture_of_a_gpt_of_12_layers_fits_a_screen() {
    let desk = Desk::new();
    let gpt = include_str!("../../graphs/gpt.ron").replace("text/tinyshakespeare.txt", "a.txt");
    desk.write("gpt.ron", gpt);
    desk.write("a.txt", "A line of text, again and again.\n".repeat(200));
    let small = ["dims.L=12", "dims.D=16", "dims.H=2", "dims.T=8", "train.max_steps=2", "write.length=2"];
    let settings: Vec<&str> = small.iter().flat_map(|setting| ["--set", setting]).collect();
    let run = ["run", "gpt.ron", "--device", "cpu", "--data-dir", ".", "--report", "gpt.html"];
    let ended = desk.engine(&[&run[..], &settings].concat());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let page = fs::read_to_string(desk.path("gpt.html")).unwrap();
    let (_, graph) = page.split_once("<h2>Graph</h2>").unwrap();
    let (_, view) = graph.split_once("viewBox=\"0 0 ").unwrap();
    let mut sides = view.split_once('"').unwrap().0.split(' ').map(|side| side.parse::<f64>().unwrap());
    let (width, height) = (sides.next().unwrap(), sides.next().unwrap());
    assert!(width <= 1280.0 && height <= 720.0, "{width} by {height}");
    assert_eq!(graph.matches("<summary>blocks <small>TransformerBlock ×12</small></summary>").count(), 1);
}
