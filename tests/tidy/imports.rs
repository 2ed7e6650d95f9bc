//! Which modules of a crate import which.

use crate::lexer::Token;
use crate::source::{Source, module_path, product_tokens};
use std::collections::{BTreeMap, BTreeSet};

/// The modules of a crate by path from its root (the root is the empty path), without tests.
pub struct Crate {
    /// The folder of its sources, such as `engine/src`.
    pub folder: String,
    modules: BTreeMap<Path, Module>,
}

/// Names from the root of a crate to a module or an item.
type Path = Vec<String>;

#[derive(Default)]
struct Module {
    /// Paths that the code names, as absolute paths.
    paths: BTreeSet<Path>,
    /// Names that `use` brings in, and the absolute paths they stand for.
    aliases: BTreeMap<String, Path>,
    /// Absolute paths of `use path::*`.
    globs: Vec<Path>,
    /// Items that the file itself defines.
    items: BTreeSet<String>,
}

impl Crate {
    pub fn new(folder: &str, sources: &[Source]) -> Crate {
        let prefix = format!("{folder}/");
        let of_crate = sources.iter().filter(|source| !source.is_test && source.path.starts_with(&prefix));
        let files: Vec<(Path, &Source)> = of_crate
            .filter(|source| !source.path.ends_with("/main.rs"))
            .map(|source| (path_in(folder, &source.path), source))
            .collect();
        let modules = files.iter().map(|(path, source)| (path.clone(), read_module(path, source)));
        Crate { folder: folder.to_string(), modules: modules.collect() }
    }

    /// Modules with children, by path.
    pub fn parents(&self) -> Vec<Path> {
        let parents: BTreeSet<Path> = self
            .modules
            .keys()
            .filter(|path| !path.is_empty())
            .map(|path| path[..path.len() - 1].to_vec())
            .collect();
        parents.into_iter().collect()
    }

    /// The imports between the children of a module, each with all modules below it, and the module's own file, which
    /// has the name `mod`.
    pub fn imports(&self, parent: &[String]) -> BTreeMap<String, BTreeSet<String>> {
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, module) in self.modules.iter().filter(|(path, _)| path.starts_with(parent)) {
            let from = child(parent, path);
            let targets = imports.entry(from.clone()).or_default();
            let resolved = module.paths.iter().filter_map(|target| self.resolve(target, 0));
            let inside = resolved.filter(|target| target.starts_with(parent));
            targets.extend(inside.map(|target| child(parent, &target)).filter(|target| *target != from));
        }
        imports
    }

    /// The module that defines what a path names.
    fn resolve(&self, path: &[String], depth: usize) -> Option<Path> {
        let mut at = Vec::new();
        for (i, name) in path.iter().enumerate() {
            let child = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            let module = self.modules.get(&at)?;
            if depth < 8 && !module.items.contains(name) {
                let through_alias = module.aliases.get(name).map(|alias| [alias, &path[i + 1..]].concat());
                let through_globs = module.globs.iter().filter(|glob| **glob != at).filter_map(|glob| {
                    let target = [glob.as_slice(), std::slice::from_ref(name)].concat();
                    self.resolve(&target, depth + 1).filter(|found| self.defines(found, name))
                });
                let alias = through_alias.and_then(|alias| self.resolve(&alias, depth + 1));
                return alias.or_else(|| through_globs.into_iter().next()).or(Some(at));
            }
            return Some(at);
        }
        Some(at)
    }

    fn defines(&self, module: &[String], name: &str) -> bool {
        module.last().is_some_and(|last| last == name)
            || self.modules.get(module).is_some_and(|module| module.items.contains(name))
    }
}

/// Groups of names that import each other in a circle.
pub fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|name| (name, reachable(imports, name))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for name in imports.keys() {
        let group = reach[name].iter().filter(|other| reach.get(*other).is_some_and(|it| it.contains(name)));
        let group: Vec<String> = group.map(|other| other.to_string()).collect();
        if !group.is_empty() {
            found.insert(group);
        }
    }
    found.into_iter().collect()
}

fn reachable<'a>(imports: &'a BTreeMap<String, BTreeSet<String>>, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        for next in imports.get(name).into_iter().flatten() {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

fn path_in(folder: &str, file: &str) -> Path {
    let module = module_path(file);
    let inside = module.strip_prefix(folder).expect("a file of the crate").trim_start_matches('/');
    inside.split('/').filter(|part| !part.is_empty()).map(String::from).collect()
}

/// The child of a module on the way to a path.
fn child(parent: &[String], path: &[String]) -> String {
    path.get(parent.len()).map_or_else(|| "mod".to_string(), Clone::clone)
}

const ITEMS: &[&str] = &["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union"];

fn read_module(path: &[String], source: &Source) -> Module {
    let tokens = product_tokens(source);
    let mut reader =
        Reader { path, module: Module::default(), inline: Vec::new(), children: BTreeSet::new() };
    for (i, token) in tokens.iter().enumerate() {
        if token.text == "mod" && text(&tokens, i + 2) == ";" {
            reader.children.insert(text(&tokens, i + 1).to_string());
        }
    }
    reader.read(&tokens);
    reader.module
}

fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| token.text.as_str())
}

struct Reader<'a> {
    path: &'a [String],
    module: Module,
    /// Names of the inline modules around the present token, and the depths of their braces.
    inline: Vec<(String, usize)>,
    /// Modules that the file declares.
    children: BTreeSet<String>,
}

impl Reader<'_> {
    fn read(&mut self, tokens: &[Token]) {
        let mut depth = 0;
        let mut at = 0;
        while at < tokens.len() {
            match text(tokens, at) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    self.inline.retain(|(_, inside)| *inside <= depth);
                }
                "use" => {
                    at = self.read_use(tokens, at);
                    continue;
                }
                word if ITEMS.contains(&word) => self.read_item(tokens, at, depth),
                "macro_rules" => {
                    self.module.items.insert(text(tokens, at + 2).to_string());
                }
                _ => at = self.read_path(tokens, at),
            }
            at += 1;
        }
    }

    fn read_item(&mut self, tokens: &[Token], at: usize, depth: usize) {
        let name = text(tokens, at + 1).to_string();
        if text(tokens, at) == "mod" && text(tokens, at + 2) == "{" {
            self.inline.push((name, depth + 1));
        } else if text(tokens, at) != "mod" && depth == self.inline.len() {
            self.module.items.insert(name);
        }
    }

    /// Reads a path in code; returns its last token.
    fn read_path(&mut self, tokens: &[Token], at: usize) -> usize {
        let first = text(tokens, at);
        let is_start = ["crate", "super", "self"].contains(&first) || self.children.contains(first);
        let before = at.checked_sub(1).map_or("", |before| text(tokens, before));
        if !is_start || text(tokens, at + 1) != "::" || ["::", ".", "$"].contains(&before) {
            return at;
        }
        let mut names = vec![first.to_string()];
        let mut end = at;
        while text(tokens, end + 1) == "::" && is_name(text(tokens, end + 2)) {
            names.push(text(tokens, end + 2).to_string());
            end += 2;
        }
        if let Some(path) = self.absolute(&names) {
            self.module.paths.insert(path);
        }
        end
    }

    /// Reads a `use`; returns the token after it.
    fn read_use(&mut self, tokens: &[Token], at: usize) -> usize {
        let before = at.checked_sub(1).map_or("", |before| text(tokens, before));
        let is_export = ["pub", ")"].contains(&before);
        let mut leaves = Vec::new();
        let end = read_tree(tokens, at + 1, &[], &mut leaves);
        for (names, alias) in leaves {
            let Some(path) = self.absolute(&names) else { continue };
            if alias == "*" {
                self.module.globs.push(path.clone());
            }
            // An export alone makes no module depend on another: those who import the name do.
            let is_used = || {
                let outside = (0..at).chain(end..tokens.len());
                let names = outside.filter(|&i| i == 0 || text(tokens, i - 1) != "mod");
                names.into_iter().any(|i| text(tokens, i) == alias)
            };
            if !is_export || is_used() {
                self.module.paths.insert(path.clone());
            }
            self.module.aliases.insert(alias, path);
        }
        end
    }

    /// The path from the root of the crate; none for a path into another crate.
    fn absolute(&self, names: &[String]) -> Option<Path> {
        let mut here = self.path.to_vec();
        here.extend(self.inline.iter().map(|(name, _)| name.clone()));
        let mut rest = names;
        match names.first()?.as_str() {
            "crate" => {
                here.clear();
                rest = &names[1..];
            }
            "self" => rest = &names[1..],
            "super" => {}
            first if self.children.contains(first) => {}
            _ => return None,
        }
        while rest.first().is_some_and(|name| name == "super") {
            here.pop()?;
            rest = &rest[1..];
        }
        // Items of inline modules belong to the file.
        let here = if here.len() > self.path.len() { self.path.to_vec() } else { here };
        Some([here.as_slice(), rest].concat())
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads a tree of a `use` and adds its leaves, each a path and the name it brings in; returns the token after it.
fn read_tree(tokens: &[Token], at: usize, prefix: &[String], leaves: &mut Vec<(Path, String)>) -> usize {
    let mut names = prefix.to_vec();
    let mut at = at;
    loop {
        match text(tokens, at) {
            "::" => at += 1,
            "{" => {
                at += 1;
                while text(tokens, at) != "}" {
                    at = read_tree(tokens, at, &names, leaves);
                    at += usize::from(text(tokens, at) == ",");
                }
                return after_tree(tokens, at + 1);
            }
            "*" => {
                leaves.push((names, "*".to_string()));
                return after_tree(tokens, at + 1);
            }
            "as" => {
                leaves.push((names, text(tokens, at + 1).to_string()));
                return after_tree(tokens, at + 2);
            }
            "self" if !names.is_empty() => at += 1,
            word if is_name(word) => {
                names.push(word.to_string());
                at += 1;
            }
            _ => {
                let alias = names.last().cloned().unwrap_or_default();
                leaves.push((names, alias));
                return after_tree(tokens, at);
            }
        }
    }
}

fn after_tree(tokens: &[Token], at: usize) -> usize {
    at + usize::from(text(tokens, at) == ";")
}
