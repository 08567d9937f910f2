//! The CPUs that workers are to stay on.

use super::{EXIT_USAGE, OptionError, Options};

/// Greatest number of a CPU. Source: CPU_SETSIZE of sched.h.
const CPU_MAX: usize = 1023;

/// Takes a list such as `0:2-5`; commas will do where they do not separate options.
pub(super) fn set(options: &mut Options, list: &str) -> Result<(), String> {
    let mut cpus = Vec::new();
    for part in list.split([':', ',']) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu <= CPU_MAX);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
            _ => {
                return Err(format!(
                    "`{part}` is no CPU; give numbers up to {CPU_MAX} and ranges, such as 0:2-5"
                ));
            }
        }
    }
    if let Some(twice) = (1..cpus.len()).find(|at| cpus[..*at].contains(&cpus[*at])) {
        return Err(format!("CPU {} is there twice; name each once", cpus[twice]));
    }
    options.cpus = cpus;
    Ok(())
}

/// The list as [`set`] takes it.
pub fn text(cpus: &[usize]) -> String {
    let follows = |left: &usize, right: &usize| *right == left + 1;
    let ranges = cpus.chunk_by(follows).map(|range| match range {
        [cpu] => cpu.to_string(),
        range => format!("{}-{}", range[0], range[range.len() - 1]),
    });
    ranges.collect::<Vec<_>>().join(":")
}

/// Checks that every worker has its CPU.
pub(super) fn settle(options: &mut Options) -> Result<(), OptionError> {
    let (cpus, threads) = (options.cpus.len(), options.threads);
    if (1..threads).contains(&cpus) {
        let message = format!(
            "-o worker_cpus={}: {cpus} for {threads} workers; name a CPU for each, or lower -t",
            text(&options.cpus)
        );
        return Err(OptionError::new(EXIT_USAGE, message));
    }
    if cpus > threads {
        let notice = format!(
            "of -o worker_cpus={} the first {threads} are used, one for each worker (-t)",
            text(&options.cpus)
        );
        options.notices.push(notice);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{set, settle, text};
    use crate::options::Options;

    #[test]
    fn a_list_is_read_in_its_order() {
        fn check(list: &str, expected: &[usize], written: &str) {
            let mut options = Options::default();
            set(&mut options, list).expect(list);
            assert_eq!(options.cpus, expected, "{list}");
            assert_eq!(text(&options.cpus), written);
        }
        check("0", &[0], "0");
        check("0:2-5", &[0, 2, 3, 4, 5], "0:2-5");
        check("0,2-5", &[0, 2, 3, 4, 5], "0:2-5");
        check("7:6:5", &[7, 6, 5], "7:6:5");
        check("1023", &[1023], "1023");
    }

    #[test]
    fn what_is_no_list_or_too_short_is_refused_with_what_to_do() {
        fn check(list: &str, part: &str) {
            let why = set(&mut Options::default(), list).expect_err(list);
            assert!(why.contains(part), "{list}: {why}");
        }
        for list in [
            "",
            "x",
            "-1",
            "5-2",
            "1024",
            "0:",
            "1-2-3",
            "99999999999999999999",
        ] {
            check(list, "such as 0:2-5");
        }
        check("0-3:2", "CPU 2 is there twice");
        let mut options = Options::default();
        set(&mut options, "0-2").expect("a list");
        let error = settle(&mut options).expect_err("four workers");
        assert!(error.message.contains("3 for 4 workers"), "{error:?}");
        options.threads = 2;
        settle(&mut options).expect("enough");
        assert!(options.notices[0].contains("the first 2 are used"));
    }
}
