//! `engine help`: the pages of error codes. `engine completions`.

use std::io;

use clap::CommandFactory;
use engine_core::diag::{Code, nearest};
use engine_core::op::Registry;

use super::args::{Arguments, CompletionsArgs, HelpArgs};
use super::ops;
use super::output::{Failure, print, printed, show};
use crate::pages;

pub(super) fn help(registry: &Registry, args: &HelpArgs) -> Result<(), Failure> {
    let mut command = Arguments::command();
    command.build();
    let Some(topic) = &args.topic else { return printed(command.print_help()) };
    if let Some(page) = page_of(topic) {
        print(page.trim_end());
        return Ok(());
    }
    if let Some(found) = command.find_subcommand_mut(topic) {
        return printed(found.print_help());
    }
    match ops::page_of(registry, topic) {
        Some(page) => print(page),
        None => return Err(unknown(registry, &command, topic)),
    }
    Ok(())
}

/// The page of an error code, in capital or small letters.
fn page_of(topic: &str) -> Option<&'static str> {
    let code = Code::ALL.iter().position(|code| code.name().eq_ignore_ascii_case(topic))?;
    pages::ERRORS.get(code).map(|(_, page)| *page)
}

/// Codes are near each other in all letters but the last, so neighbours are listed. Beyond the last code there are none.
fn unknown(registry: &Registry, command: &clap::Command, topic: &str) -> Failure {
    let is_code = topic.len() == 5
        && topic.starts_with(['E', 'e'])
        && topic[1..].bytes().all(|letter| letter.is_ascii_digit());
    if is_code {
        let number = |code: &str| code[1..].parse::<i32>().unwrap_or_default();
        let mut codes: Vec<Code> = Code::ALL.to_vec();
        codes.sort();
        if let [first, .., last] = codes[..]
            && !(number(first.name())..=number(last.name())).contains(&number(topic))
        {
            return Failure::graph(format!("there is no error code `{topic}`; they are {first} to {last}"));
        }
        codes.sort_by_key(|code| (number(code.name()) - number(topic)).abs());
        codes.truncate(3);
        codes.sort();
        let lines = codes.iter().map(|code| format!("\n  {code}: {}", code.title()));
        let lines: String = lines.collect();
        return Failure::graph(format!("there is no error code `{topic}`; the nearest are{lines}"));
    }
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let near = nearest(topic, commands).map(str::to_string).or_else(|| ops::nearest(registry, topic));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "topics are error codes such as E0606, commands, and what `engine ops` lists".to_string(),
    };
    Failure::graph(format!("there is no page on `{topic}`; {hint}"))
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = vec![];
    clap_complete::generate(args.shell, &mut Arguments::command(), "engine", &mut text);
    show(|out: &mut dyn io::Write| out.write_all(&text));
    Ok(())
}
