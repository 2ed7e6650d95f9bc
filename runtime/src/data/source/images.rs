//! The source `images`: a folder of pictures for each class.

use std::fs;
use std::io::Read;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use engine_core::ir::{Attr, DType};
use indexmap::IndexMap;

use super::files::{SPLITS, empty_set, expect, split_names};
use super::picture::Picture;
use super::{DataError, DataSet, FieldNames, LoadContext, Source, Split};
use crate::data::fault::TableError;
use crate::files;
use crate::tensor::HostTensor;

/// The fields `images`, `u8[rows, height, width, channels]`, and `labels`, `i32[rows]`. A row is a PNG or JPEG file in the
/// folder of its class. Classes are the folders of the training rows, in alphabetical order.
pub(super) struct Images;

const FOLDER: &str = "folder";
const RESIZE: &str = "resize";
const GREY: &str = "grey";
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];
const MOST_PIXELS: i64 = 1 << 14;

impl Source for Images {
    fn name(&self) -> &str {
        "images"
    }

    fn summary(&self) -> &str {
        "PNG and JPEG files of a `folder`, which has a folder for each class"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[FOLDER, RESIZE, GREY, SPLITS])?;
        let Some(folder) = context.text(FOLDER)? else {
            return Err(DataError::BadOption {
                name: FOLDER.to_string(),
                expected: "the name of a folder with a folder for each class".to_string(),
                found: "left out".to_string(),
            });
        };
        let size = size(context)?;
        let is_grey = context.truth(GREY)?.unwrap_or(false);
        let mut format = Format { size, resizes: size.is_some(), is_grey };
        let splits = split_names(context, &[(FOLDER, folder)])?;
        let folders = splits.iter().map(|split| expect(context, folder, split));
        let folders = folders.collect::<Result<Vec<PathBuf>, DataError>>()?;
        let train = splits.iter().position(|split| split == "train").unwrap_or_default();
        let classes = classes_of(&folders[train])?;
        let mut set = empty_set(self.name(), &folders[train]);
        for (split, folder) in splits.into_iter().zip(&folders) {
            let (files, n_others) = files_of(folder, &classes)?;
            if n_others > 0 {
                set.add_note(format!(
                    "{}: {n_others} files that are no images of a class are left out",
                    folder.display()
                ));
            }
            set.splits.insert(split, format.read(&files)?);
        }
        set.names.insert("labels".to_string(), FieldNames { classes, ..FieldNames::default() });
        Ok(set)
    }
}

/// The option `resize`, as height and width.
fn size(context: &LoadContext) -> Result<Option<[usize; 2]>, DataError> {
    let Some((_, found)) = context.options.iter().find(|(option, _)| &**option == RESIZE) else {
        return Ok(None);
    };
    match found {
        Attr::Ints(size) if size.len() == 2 && size.iter().all(|n| (1..=MOST_PIXELS).contains(n)) => {
            Ok(Some([size[0] as usize, size[1] as usize]))
        }
        _ => Err(DataError::BadOption {
            name: RESIZE.to_string(),
            expected: format!("height and width, such as [64, 64], each at most {MOST_PIXELS}"),
            found: found.to_string(),
        }),
    }
}

/// The names of the folders in a folder, sorted.
fn classes_of(folder: &Path) -> Result<Vec<String>, DataError> {
    let classes = entries(folder)?;
    let names = classes.iter().filter(|path| path.is_dir()).map(|path| class_name(path));
    match names.collect::<Result<Vec<String>, DataError>>()? {
        names if names.is_empty() => Err(TableError::no_rows(folder).into()),
        names => Ok(names),
    }
}

/// The class of a folder. Bytes that are no UTF-8 must not be replaced: two classes would become one.
fn class_name(folder: &Path) -> Result<String, DataError> {
    let name = folder.file_name().unwrap_or_default().to_str();
    name.map(str::to_string).ok_or_else(|| DataError::Image {
        path: folder.to_path_buf(),
        why: "the name of the folder is not UTF-8".to_string(),
    })
}

/// The paths in a folder, sorted, without those of hidden files.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |error| DataError::from(TableError::Unreadable { path: folder.to_path_buf(), error });
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths = vec![];
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// An image and the number of its class.
type Labelled = (PathBuf, i32);

/// The images of a folder by class, then name, and the number of other files.
///
/// # Errors
/// If a folder cannot be read, has no images, or is no class.
fn files_of(folder: &Path, classes: &[String]) -> Result<(Vec<Labelled>, usize), DataError> {
    let (mut images, mut n_others) = (vec![], 0);
    for path in entries(folder)? {
        if !path.is_dir() {
            n_others += 1;
            continue;
        }
        let name = class_name(&path)?;
        let class = classes.iter().position(|class| *class == name);
        let unknown = || DataError::Image {
            path: path.clone(),
            why: format!("the folder is none of the {} classes of the training rows", classes.len()),
        };
        let class = class.ok_or_else(unknown)?;
        let is_image = |file: &PathBuf| {
            let extension = file.extension().map(|extension| extension.to_ascii_lowercase());
            extension.is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
        };
        let (found, others): (Vec<PathBuf>, Vec<PathBuf>) = entries(&path)?.into_iter().partition(is_image);
        n_others += others.len();
        images.extend(found.into_iter().map(|file| (file, class as i32)));
    }
    match images.is_empty() {
        true => Err(TableError::no_rows(folder).into()),
        false => Ok((images, n_others)),
    }
}

/// The common form of all images.
struct Format {
    /// Height and width: those of the option, else those of the first image.
    size: Option<[usize; 2]>,
    resizes: bool,
    is_grey: bool,
}

impl Format {
    /// The images with their classes.
    fn read(&mut self, files: &[Labelled]) -> Result<Split, DataError> {
        let size = match self.size {
            Some(size) => size,
            None => *self.size.insert(decoded(&files[0].0)?.size),
        };
        let [height, width] = size;
        let shape = [files.len(), height, width, if self.is_grey { 1 } else { 3 }];
        let mut images = HostTensor::zeros(DType::U8, &shape)?;
        let n_bytes = shape[1..].iter().product::<usize>();
        let n_threads = thread::available_parallelism().map_or(1, NonZero::get);
        let n_each = files.len().div_ceil(n_threads);
        let format = &*self;
        let parts = files.chunks(n_each).zip(images.bytes_mut().chunks_mut(n_each * n_bytes));
        thread::scope(|scope| {
            let read =
                |(files, bytes): (&[Labelled], &mut [u8])| format.read_part(files, bytes, (size, n_bytes));
            let threads: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            // The first fault in the order of the files.
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| engine_core::bug!("decoding an image panicked"))
            })
        })?;
        let labels: Vec<i32> = files.iter().map(|(_, class)| *class).collect();
        let labels = HostTensor::from_slice(&[labels.len()], &labels)?;
        Split::new(IndexMap::from([("images".to_string(), images), ("labels".to_string(), labels)]))
    }

    /// Decodes images one after the other.
    fn read_part(
        &self,
        files: &[Labelled],
        bytes: &mut [u8],
        (size, n_bytes): ([usize; 2], usize),
    ) -> Result<(), DataError> {
        for ((path, _), bytes) in files.iter().zip(bytes.chunks_exact_mut(n_bytes)) {
            let mut picture = decoded(path)?;
            if picture.size != size {
                if !self.resizes {
                    let ([found_height, found_width], [height, width]) = (picture.size, size);
                    let why = format!(
                        "the image has {found_height}×{found_width} pixels, the first one {height}×{width}"
                    );
                    return Err(DataError::Image { path: path.clone(), why });
                }
                picture = picture.scaled(size);
            }
            bytes.copy_from_slice(&picture.bytes(self.is_grey));
        }
        Ok(())
    }
}

/// The picture of a file.
fn decoded(path: &Path) -> Result<Picture, DataError> {
    let unreadable = |error| TableError::Unreadable { path: path.to_path_buf(), error };
    let (mut file, _) = files::open(path).map_err(unreadable)?;
    let mut bytes = vec![];
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Picture::decoded(&bytes).map_err(|why| DataError::Image { path: path.to_path_buf(), why })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tests::png_file;
    use super::*;
    use png::{BitDepth, ColorType};

    fn load(dir: &Path, options: &[(&str, Attr)]) -> Result<DataSet, String> {
        let folder = [(FOLDER, Attr::from("{split}"))];
        let options =
            folder.iter().chain(options).map(|(name, value)| ((*name).into(), value.clone())).collect();
        let set = Images.load(&LoadContext { options, ..LoadContext::offline_in(dir) });
        set.map_err(|error| error.to_string().replace(&format!("{}/", dir.display()), ""))
    }

    /// The file of a picture of one colour.
    fn plain(size: [u32; 2], colour: [u8; 3]) -> Vec<u8> {
        let pixels = colour.repeat((size[0] * size[1]) as usize);
        png_file(size, ColorType::Rgb, BitDepth::Eight, &pixels)
    }

    /// Red, green and blue images of two classes.
    fn pictures() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        fs::write(file("train/rose/b.png"), plain([4, 2], [255, 0, 0])).unwrap();
        let grey = png_file([4, 2], ColorType::Grayscale, BitDepth::Eight, &[7; 8]);
        fs::write(file("train/rose/a.PNG"), grey).unwrap();
        fs::write(file("train/iris/c.jpg"), include_bytes!("pictures/blue.jpg")).unwrap();
        fs::write(file("test/rose/d.png"), plain([4, 2], [0, 255, 0])).unwrap();
        fs::write(file("train/rose/notes.txt"), "none").unwrap();
        fs::write(file("train/rose/.hidden"), "none").unwrap();
        dir
    }

    #[test]
    fn folders_are_classes_and_files_are_rows() {
        let dir = pictures();
        let set = load(dir.path(), &[]).unwrap();
        assert_eq!(
            format!("{:?}", set.splits["train"].fields()),
            r#"{"images": u8[3,2,4,3], "labels": i32[3]}"#
        );
        assert_eq!(set.splits["train"].tensor("labels").unwrap().to_f64(), [0.0, 1.0, 1.0]);
        assert_eq!(set.splits["test"].tensor("labels").unwrap().to_f64(), [1.0]);
        assert_eq!(set.names["labels"].classes, ["iris", "rose"]);
        assert!(set.note.unwrap().ends_with("train: 1 files that are no images of a class are left out"));
        let images = set.splits["train"].tensor("images").unwrap();
        // JPEG is lossy. The grey image comes before the red one.
        assert!(images.bytes()[..3].iter().zip([0u8, 0, 254]).all(|(&x, y)| x.abs_diff(y) < 4));
        assert_eq!(images.bytes()[24..27], [7, 7, 7]);
        assert_eq!(images.bytes()[48..51], [255, 0, 0]);
        let grey = load(dir.path(), &[(GREY, true.into()), (RESIZE, Attr::Ints(vec![1, 2]))]).unwrap();
        assert_eq!(
            format!("{:?}", grey.splits["train"].fields()),
            r#"{"images": u8[3,1,2,1], "labels": i32[3]}"#
        );
        assert_eq!(grey.splits["train"].tensor("images").unwrap().bytes()[2..4], [7, 7]);
    }

    #[test]
    fn images_that_are_none_are_named() {
        let dir = pictures();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("train/rose/e.png"), plain([3, 5], [0; 3])).unwrap();
        let uneven = "train/rose/e.png: the image has 5×3 pixels, the first one 2×4";
        assert_eq!(load(dir.path(), &[]).unwrap_err(), uneven);
        assert!(load(dir.path(), &[(RESIZE, Attr::Ints(vec![2, 4]))]).is_ok());
        assert_eq!(load(dir.path(), &[(RESIZE, 2.into())]).unwrap_err(), "option `resize` cannot be 2");
        // A file that ends too early, and one that is no image at all.
        let whole = fs::read(at("train/rose/b.png")).unwrap();
        fs::write(at("train/rose/b.png"), &whole[..whole.len() / 2]).unwrap();
        let error = load(dir.path(), &[]).unwrap_err();
        assert!(error.starts_with("train/rose/b.png: "), "{error}");
        fs::write(at("train/rose/b.png"), "text").unwrap();
        let error = load(dir.path(), &[]).unwrap_err();
        assert!(error.starts_with("train/rose/b.png: "), "{error}");
        fs::create_dir(at("test/lily")).unwrap();
        fs::remove_dir_all(at("train/rose")).unwrap();
        let error = load(dir.path(), &[]).unwrap_err();
        assert_eq!(error, "test/lily: the folder is none of the 1 classes of the training rows");
    }

    /// In Latin-1, `é` and `è` are bytes that are no UTF-8. With replacements, both classes would have one name.
    #[cfg(target_os = "linux")]
    #[test]
    fn classes_with_names_that_are_no_utf8_are_refused() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let dir = pictures();
        for name in [b"caf\xe9", b"caf\xe8"] {
            fs::create_dir(dir.path().join("train").join(OsStr::from_bytes(name))).unwrap();
        }
        let error = load(dir.path(), &[]).unwrap_err();
        assert_eq!(error, "train/caf\u{fffd}: the name of the folder is not UTF-8");
    }

    #[test]
    fn damaged_images_never_panic() {
        let dir = pictures();
        for name in ["train/rose/b.png", "train/iris/c.jpg"] {
            let path = dir.path().join(name);
            let whole = fs::read(&path).unwrap();
            for place in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[place] ^= 0x55;
                fs::write(&path, damaged).unwrap();
                drop(decoded(&path));
            }
        }
    }
}
