//! Fields that the command line replaces.

use super::*;

#[test]
fn the_command_line_replaces_fields() {
    let overrides = [
        ("seed", "7"),
        ("train.epochs", "1"),
        ("train.max_steps", "20"),
        ("train.optimizer.lr", "0.01"),
        ("stages.test.batch", "10"),
        ("data.digits.source", "synthetic"),
        ("nodes.h", "sigmoid(x @ w1 + b1)"),
        ("params.b1", "\"f32[256]\""),
    ];
    let (pipeline, diags, sources) = read(MNIST, &overrides);
    assert_eq!(diags.render(&sources, Look::Plain), "");
    let pipeline = pipeline.unwrap();
    let train = pipeline.stages[0].get::<TrainStage>().unwrap();
    assert_eq!((pipeline.seed, train.epochs, train.max_steps), (7, 1, Some(20)));
    assert_eq!(train.optimizer.as_ref().unwrap().lr, Schedule::constant(0.01));
    assert_eq!(pipeline.data[0].source, "synthetic");
    assert!(pipeline.graph.to_string().contains("sigmoid"));
}

#[test]
fn how_numbers_are_computed_is_a_choice_of_the_pipeline() {
    let with = |text: &str, overrides: &[(&str, &str)]| {
        let (pipeline, diags, sources) = read(text, overrides);
        assert_eq!(diags.render(&sources, Look::Plain), "");
        let pipeline = pipeline.unwrap();
        (pipeline.matmul, pipeline.numerics)
    };
    assert_eq!(with("()", &[]), (Precision::F32, Numerics::Default));
    assert_eq!(with("(matmul: Tf32, numerics: Strict)", &[]), (Precision::Tf32, Numerics::Strict));
    assert_eq!(with("(numerics: Default)", &[("numerics", "Fast")]).1, Numerics::Fast);

    let (_, diags, sources) = read("(numerics: Strikt)", &[]);
    let said = diags.render(&sources, Look::Plain);
    assert!(said.contains("did you mean `Strict`?"), "{said}");
}

#[test]
fn wrong_overrides_are_told() {
    let overrides = [
        ("sed", "7"),
        ("train.epoch", "1"),
        ("trian.epochs", "1"),
        ("train.batch", "many"),
        ("train.loss.x", "1"),
        ("train.optimizer.lr", "(1"),
        ("nodes.h", "relu(x @ w1 + b3)"),
    ];
    let (_, diags, sources) = read(MNIST, &overrides);
    expect![[r#"
        error[E0012]: a pipeline has no field `sed`
          ┌─ --set sed:1:1
          │
        1 │ 7
          │ ^
          │
          = help: did you mean `seed`?

        error[E0012]: a `Train` stage has no field `epoch`
          ┌─ --set train.epoch:1:1
          │
        1 │ 1
          │ ^
          │
          = help: did you mean `epochs`?

        error[E0208]: there is no setting `trian.epochs`
          ┌─ --set trian.epochs:1:1
          │
        1 │ 1
          │ ^
          │
          = help: did you mean `train` for `trian`?

        error[E0010]: `batch` must be a whole number, not a word
          ┌─ --set train.batch:1:1
          │
        1 │ many
          │ ^^^^

        error[E0208]: there is no setting `stages.train.loss.x`
          ┌─ --set train.loss.x:1:1
          │
        1 │ 1
          │ ^
          │
          = help: there are no settings below it

        error[E0003]: `(` is not closed
          ┌─ --set train.optimizer.lr:1:1
          │
        1 │ (1
          │ ^ - found the end of the file instead of `)`
          │ │
          │ opened here

        error[E0010]: `lr` must be a number, not a group of values
          ┌─ --set train.optimizer.lr:1:1
          │
        1 │ (1
          │ ^^

        error[E0101]: nothing is called `b3`
          ┌─ --set nodes.h:1:15
          │
        1 │ relu(x @ w1 + b3)
          │               ^^
          │
          = help: did you mean `b1`?
    "#]]
    .assert_eq(&diags.render(&sources, Look::Plain));
}

#[test]
fn settings_are_listed_by_their_paths() {
    let text = r#"(
        seed: 3,
        dims: {"D": 8},
        data: {"points": (source: "numbers", n_train: 10)},
        params: {"w": "f32[D]"},
        stages: {
            "fit": Train(data: "points.train", batch: 2, optimizer: Adam(lr: Cosine(start: 1e-3))),
            "seed": Run(outputs: ["w",
                                  "v"]),
        },
    )"#;
    let mut sources = Sources::new();
    let file = sources.add("s.ron", text);
    let overrides = [("fit.batch", "4"), ("fit.data", "points.test"), ("fit.optimizer.lr.end", "1e-5")];
    let overrides = overrides.map(|(path, value)| (path.to_owned(), value.to_owned()));
    let settings = settings(&sources, file, &overrides);
    let lines: String = settings.iter().map(|(path, value)| format!("{path} = {value}\n")).collect();
    expect![[r#"
        seed = 3
        dims.D = 8
        data.points.source = numbers
        data.points.n_train = 10
        fit = Train
        fit.data = points.test
        fit.batch = 4
        fit.optimizer = Adam
        fit.optimizer.lr = Cosine
        fit.optimizer.lr.start = 1e-3
        fit.optimizer.lr.end = 1e-5
        stages.seed = Run
        stages.seed.outputs = ["w", "v"]
    "#]]
    .assert_eq(&lines);
}

#[test]
fn paths_need_no_quotes_and_extents_must_be_named() {
    let text = r#"(
        dims: {"D": 4, "WIDHT": 3},
        data: {"text": (source: "text", file: "a.txt")},
        inputs: {"x": "f32[B, D]"},
        nodes: {"y": "x + x"},
        stages: {"go": Run(outputs: ["y"])},
    )"#;
    let overrides = [("data.text.file", "b.txt"), ("data.text.tokenizer", "t.json"), ("dims.B", "2")];
    let (pipeline, diags, _) = read(text, &overrides);
    let said: Vec<&str> = diags.sorted().iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(said, ["nothing uses the extent `WIDHT`"]);
    let pipeline = pipeline.unwrap();
    let options = format!("{:?}", pipeline.data[0].options);
    assert!(options.contains("b.txt") && options.contains("t.json"), "{options}");
    assert!(pipeline.graph.to_string().contains("x: f32[2, 4]"), "{}", pipeline.graph);

    let (_, diags, sources) = read(text, &[("dims.d", "3"), ("data.text.tokenizer", "t")]);
    let said = diags.render(&sources, Look::Plain);
    assert!(said.contains("error[E0208]: there is no setting `dims.d`"), "{said}");
    assert!(said.contains("= help: did you mean `D` for `d`?\n"), "{said}");

    let (_, diags, sources) = read(text, &[("dims.M", "4")]);
    let said = diags.render(&sources, Look::Plain);
    assert!(said.contains("= help: the extents are `D`, `WIDHT`\n"), "{said}");
}

/// The first step of such a path is no field of the pipeline, and its fields are no extents.
#[test]
fn extents_of_a_pipeline_without_dims_are_added_as_a_whole() {
    let text = r#"(
        inputs: {"x": "f32[B, 4]"},
        nodes: {"y": "x + x"},
        stages: {"go": Run(outputs: ["y"])},
    )"#;
    let told = |path: &str| {
        let (_, diags, sources) = read(text, &[(path, "2")]);
        diags.render(&sources, Look::Plain)
    };
    let said = told("dims.B");
    assert!(said.contains("error[E0208]: there is no setting `dims.B`"), "{said}");
    let help = "= help: the pipeline has no `dims`; `--set 'dims={\"B\": …}'` adds them\n";
    assert!(said.contains(help), "{said}");
    let said = told("dims.C");
    assert!(said.contains("= help: the pipeline has no `dims`, and nothing uses an extent `C`\n"), "{said}");
    let (pipeline, diags, sources) = read(text, &[("dims", r#"{"B": 2}"#)]);
    assert_eq!(diags.render(&sources, Look::Plain), "");
    assert!(pipeline.unwrap().graph.to_string().contains("x: f32[2, 4]"));
}
