// SPDX-License-Identifier: GPL-2.0
//! What a kernel image says about itself.
//!
//! *Which kernel is this file, and how was it built?* A bzImage carries its
//! release in a header, and where CONFIG_IKCONFIG was set, its configuration in
//! the compressed part. That part is the kernel itself, which a virtual machine may
//! be able to enter ([`direct`]), and whose start-up code waits too expensively for an
//! emulated one ([`keep_turn`]). Not here: what follows from it (`kernel`).

use std::io::Read;
use std::ops::Range;

use goblin::elf::SectionHeader;

/// Offsets of the Linux x86 boot protocol, Documentation/arch/x86/boot.rst.
const SETUP_SECTS: usize = 0x1f1;
const BOOT_FLAG: usize = 0x1fe;
const HEADER: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// The note with the entry point of PVH, include/xen/interface/elfnote.h.
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;

/// The code that runs only while the kernel starts.
const STARTUP_CODE: &str = ".init.text";

/// PAUSE, and a no-op of the same length.
const PAUSE: [u8; 2] = [0xf3, 0x90];
pub(crate) const NO_OP: [u8; 2] = [0x66, 0x90];
const RDTSC: [u8; 2] = [0x0f, 0x31];
/// A jump by the number of bytes in the next one.
const JMP: u8 = 0xeb;

const SECTOR_BYTES: usize = 512;
const BOOT_FLAG_MAGIC: u16 = 0xaa55;
/// The first protocol with the place of the payload: Linux 2.6.26.
const PROTOCOL_MIN: u16 = 0x0208;
/// What stands for 0 in the count of setup sectors.
const SETUP_SECTS_DFL: usize = 4;

/// The release string, or what is wrong with the image.
pub(crate) fn release(image: &[u8]) -> Result<String, String> {
    let header = image
        .get(HEADER..HEADER + 4)
        .ok_or("the file is too short")?;
    if header != b"HdrS" || read_u16(image, BOOT_FLAG) != Some(BOOT_FLAG_MAGIC) {
        let kind = if image.starts_with(b"\x7fELF") {
            "it is an ELF file; give the bzImage"
        } else {
            "it has no boot header"
        };
        return Err(kind.to_owned());
    }
    if read_u16(image, VERSION).is_none_or(|version| version < PROTOCOL_MIN) {
        return Err("its boot protocol is too old".to_owned());
    }

    let start = usize::from(read_u16(image, KERNEL_VERSION).unwrap_or(0)) + SECTOR_BYTES;
    let text = image.get(start..).unwrap_or_default();
    let text: Vec<u8> = text
        .iter()
        .copied()
        .take_while(|&byte| byte > b' ' && byte < 0x7f)
        .collect();
    match String::from_utf8(text) {
        Ok(release) if release.starts_with(|c: char| c.is_ascii_digit()) => Ok(release),
        _ => Err("it does not say which kernel it is".to_owned()),
    }
}

/// The configuration that was built into the image, if there is one.
pub(crate) fn embedded_config(image: &[u8]) -> Option<String> {
    let kernel = decompress(payload(image)?)?;
    let start = find(&kernel, b"IKCFG_ST")? + b"IKCFG_ST".len();
    let mut config = String::new();
    flate2::read::GzDecoder::new(&kernel[start..])
        .read_to_string(&mut config)
        .ok()?;
    Some(config)
}

/// The kernel inside the image, if a virtual machine can enter it without the code
/// that unpacks it: an ELF file that names an entry point for that (PVH).
pub(crate) fn direct(image: &[u8]) -> Option<Vec<u8>> {
    let kernel = decompress(payload(image)?)?;
    let is_entry = |note: &goblin::elf::note::Note| {
        note.name == "Xen" && note.n_type == XEN_ELFNOTE_PHYS32_ENTRY
    };
    let elf = goblin::elf::Elf::parse(&kernel).ok()?;
    let mut notes = elf.iter_note_headers(&kernel)?;
    let has_entry = notes.any(|note| note.is_ok_and(|note| is_entry(&note)));
    has_entry.then_some(kernel)
}

/// Let a CPU that waits for a moment of the TSC in the start-up code of `kernel`, an
/// ELF file, keep its turn: a no-op instead of PAUSE in each loop that ends with PAUSE
/// and reads the TSC. Returns how many there were.
///
/// At PAUSE an emulated CPU gives way to every other one. The kernel calibrates the
/// timer of the first CPU for a tenth of a second in such a loop, and to go round the
/// CPUs ten million times was most of what a boot cost the host.
pub(crate) fn keep_turn(kernel: &mut [u8]) -> usize {
    let range = section(kernel, STARTUP_CODE);
    let Some(code) = range.and_then(|range| kernel.get_mut(range)) else {
        return 0;
    };
    let is_loop = |at: usize| {
        let Some(&[first, second, JMP, distance]) = code.get(at..at + 4) else {
            return false;
        };
        let begin = (at + 4).checked_add_signed(distance.cast_signed().into());
        [first, second] == PAUSE
            && begin.is_some_and(|begin| {
                begin < at && code[begin..at].windows(RDTSC.len()).any(|two| two == RDTSC)
            })
    };
    let loops: Vec<usize> = (0..code.len()).filter(|&at| is_loop(at)).collect();
    for &at in &loops {
        code[at..at + NO_OP.len()].copy_from_slice(&NO_OP);
    }
    loops.len()
}

/// Where section `name` of an ELF file is.
fn section(elf: &[u8], name: &str) -> Option<Range<usize>> {
    let parsed = goblin::elf::Elf::parse(elf).ok()?;
    let mut headers = parsed.section_headers.iter();
    let is_named =
        |header: &&SectionHeader| parsed.shdr_strtab.get_at(header.sh_name) == Some(name);
    headers.find(is_named)?.file_range()
}

/// The compressed kernel inside the image.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let setup_sects = match usize::from(*image.get(SETUP_SECTS)?) {
        0 => SETUP_SECTS_DFL,
        count => count,
    };
    let start = (setup_sects + 1) * SECTOR_BYTES + read_u32(image, PAYLOAD_OFFSET)?;
    let end = start.checked_add(read_u32(image, PAYLOAD_LENGTH)?)?;
    image.get(start..end)
}

/// What `payload` decompresses to; nothing for a format that we do not read.
///
/// The build appends the size behind the stream, so each decoder reads one
/// stream and ignores what follows.
fn decompress(payload: &[u8]) -> Option<Vec<u8>> {
    let mut kernel = Vec::new();
    match payload {
        [0x1f, 0x8b, ..] => flate2::read::GzDecoder::new(payload)
            .read_to_end(&mut kernel)
            .ok()?,
        [0xfd, b'7', b'z', b'X', b'Z', ..] => liblzma::read::XzDecoder::new(payload)
            .read_to_end(&mut kernel)
            .ok()?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ruzstd::decoding::StreamingDecoder::new(payload)
            .ok()?
            .read_to_end(&mut kernel)
            .ok()?,
        _ => return None,
    };
    Some(kernel)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(step) = haystack[from..].iter().position(|&byte| byte == first) {
        let at = from + step;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

fn read_u16(image: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(image.get(at..at + 2)?.try_into().ok()?))
}

fn read_u32(image: &[u8], at: usize) -> Option<usize> {
    let value = u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?);
    usize::try_from(value).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// A bzImage with a header, a release and a gzip payload, and no code.
    pub(crate) fn synthetic_image(release: &str, kernel: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(kernel).unwrap();
        let payload = encoder.finish().unwrap();

        let mut image = vec![0u8; 2 * SECTOR_BYTES];
        image[SETUP_SECTS] = 1;
        image[BOOT_FLAG..BOOT_FLAG + 2].copy_from_slice(&BOOT_FLAG_MAGIC.to_le_bytes());
        image[HEADER..HEADER + 4].copy_from_slice(b"HdrS");
        image[VERSION..VERSION + 2].copy_from_slice(&0x020fu16.to_le_bytes());
        image[KERNEL_VERSION..KERNEL_VERSION + 2].copy_from_slice(&0x180u16.to_le_bytes());
        let text = format!("{release} (someone@somewhere) #1 SMP");
        image[0x380..0x380 + text.len()].copy_from_slice(text.as_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend(payload);
        image
    }

    /// A kernel that carries `config` as CONFIG_IKCONFIG does.
    pub(crate) fn kernel_with_config(config: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(config.as_bytes()).unwrap();
        let mut kernel = b"IIKCFG IKCFG_ST".to_vec();
        kernel.extend(encoder.finish().unwrap());
        kernel.extend(b"IKCFG_ED");
        kernel
    }

    #[test]
    fn the_release_is_the_first_word_of_the_version() {
        let image = synthetic_image("6.18.15+deb13-cloud-amd64", b"");
        assert_eq!(release(&image).unwrap(), "6.18.15+deb13-cloud-amd64");
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        assert!(release(b"").is_err());
        assert!(
            release(&vec![0; 4096])
                .unwrap_err()
                .contains("no boot header")
        );
        let mut elf = vec![0; 4096];
        elf[..4].copy_from_slice(b"\x7fELF");
        assert!(release(&elf).unwrap_err().contains("ELF"));
        assert!(release(&synthetic_image("", b"")).is_err());
    }

    #[test]
    fn a_truncated_image_never_panics() {
        let image = synthetic_image("6.12.0", &kernel_with_config("CONFIG_HZ=1000\n"));
        for length in 0..image.len() {
            let _ = release(&image[..length]);
            assert_eq!(embedded_config(&image[..length]), None);
        }
    }

    const ELF_HEADER_BYTES: u64 = 64;
    const ELF_SEGMENT_BYTES: u16 = 56;
    const ELF_SECTION_BYTES: u16 = 64;

    /// The header of an x86-64 ELF file: where the headers of its segments and of its
    /// sections are, and how many. The last section holds the names.
    fn elf_header(segments: (u64, u16), sections: (u64, u16)) -> Vec<u8> {
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        for number in [0, segments.0, sections.0] {
            elf.extend(number.to_le_bytes());
        }
        elf.extend(0u32.to_le_bytes());
        let numbers = [
            ELF_HEADER_BYTES as u16,
            ELF_SEGMENT_BYTES,
            segments.1,
            ELF_SECTION_BYTES,
            sections.1,
            sections.1.saturating_sub(1),
        ];
        for number in numbers {
            elf.extend(number.to_le_bytes());
        }
        elf
    }

    /// An ELF file with nothing but a note of this type.
    fn elf_with_note(note_type: u32) -> Vec<u8> {
        const PT_NOTE: u32 = 4;
        let mut note = Vec::new();
        for number in [4, 8, note_type] {
            note.extend(number.to_le_bytes());
        }
        note.extend(b"Xen\0");
        note.extend(0x100_0000u64.to_le_bytes());

        let mut elf = elf_header((ELF_HEADER_BYTES, 1), (0, 0));
        elf.extend(PT_NOTE.to_le_bytes());
        elf.extend(4u32.to_le_bytes());
        let (at, length) = (
            ELF_HEADER_BYTES + u64::from(ELF_SEGMENT_BYTES),
            note.len() as u64,
        );
        for number in [at, 0, 0, length, length, 4] {
            elf.extend(number.to_le_bytes());
        }
        elf.extend(note);
        elf
    }

    #[test]
    fn a_kernel_is_entered_directly_if_it_says_where() {
        let kernel = elf_with_note(XEN_ELFNOTE_PHYS32_ENTRY);
        let image = synthetic_image("6.18.0", &kernel);
        assert_eq!(direct(&image), Some(kernel));
        let other = elf_with_note(XEN_ELFNOTE_PHYS32_ENTRY + 1);
        assert_eq!(direct(&synthetic_image("6.18.0", &other)), None);
        assert_eq!(direct(&synthetic_image("6.18.0", b"no ELF file")), None);
        for length in 0..image.len() {
            let _ = direct(&image[..length]);
        }
    }

    /// An ELF file with one section, and its name.
    fn elf_with_code(name: &str, code: &[u8]) -> Vec<u8> {
        let names = format!("\0{name}\0");
        let code_at = ELF_HEADER_BYTES + names.len() as u64;
        let sections_at = code_at + code.len() as u64;

        let mut elf = elf_header((0, 0), (sections_at, 3));
        elf.extend(names.as_bytes());
        elf.extend(code);
        let parts = [
            (0u32, 0u32, 0, 0),
            (1, 1, code_at, code.len() as u64),
            (0, 3, ELF_HEADER_BYTES, names.len() as u64),
        ];
        for (name, kind, offset, size) in parts {
            elf.extend(name.to_le_bytes());
            elf.extend(kind.to_le_bytes());
            for number in [0, 0, offset, size, 0, 0, 0] {
                elf.extend(number.to_le_bytes());
            }
        }
        elf
    }

    /// `before`, PAUSE, and a jump back to the start of `before`.
    fn loop_with_pause(before: &[u8]) -> Vec<u8> {
        let mut code = before.to_vec();
        code.extend(PAUSE);
        let distance = -i8::try_from(code.len() + 2).unwrap();
        code.extend([JMP, distance.cast_unsigned()]);
        code
    }

    #[test]
    fn a_cpu_that_waits_for_the_tsc_at_the_start_keeps_its_turn() {
        let reads = loop_with_pause(&[0x90, 0x0f, 0x31, 0x72, 0x14]);
        let mut changed = reads.clone();
        changed[5..7].copy_from_slice(&NO_OP);
        let mut elf = elf_with_code(STARTUP_CODE, &reads);
        assert_eq!(keep_turn(&mut elf), 1);
        assert_eq!(elf, elf_with_code(STARTUP_CODE, &changed));
    }

    #[test]
    fn other_loops_and_other_code_stay_as_they_are() {
        let reads = loop_with_pause(&[0x0f, 0x31]);
        let waits = loop_with_pause(&[0x83, 0x3d, 0, 0]);
        let mut forward = reads.clone();
        *forward.last_mut().unwrap() = 4;
        for (name, code) in [
            (".text", &reads),
            (STARTUP_CODE, &waits),
            (STARTUP_CODE, &forward),
        ] {
            let before = elf_with_code(name, code);
            let mut elf = before.clone();
            assert_eq!(keep_turn(&mut elf), 0, "{name} {code:x?}");
            assert_eq!(elf, before);
        }
        let elf = elf_with_code(STARTUP_CODE, &reads);
        for length in 0..elf.len() {
            keep_turn(&mut elf[..length].to_vec());
        }
    }

    #[test]
    fn the_embedded_configuration_is_found() {
        let image = synthetic_image("6.12.0", &kernel_with_config("CONFIG_HZ=1000\n"));
        assert_eq!(embedded_config(&image).as_deref(), Some("CONFIG_HZ=1000\n"));
        assert_eq!(
            embedded_config(&synthetic_image("6.12.0", b"no such thing")),
            None
        );
    }
}
