//! How often a list rests.

use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, PinnedSlice};
use scrubjay_net::{Next, Output, Peer, Service};

use crate::options::Options;
use crate::service::{CacheService, Shared};
use crate::session::Session;

const NOW: Now = Now::from_secs(5);

struct Bench {
    service: CacheService,
    session: Session,
}

impl Bench {
    fn new() -> Bench {
        let options = Options::default();
        let cache = Cache::new(options.cache_config(1_700_000_000_000, 1)).expect("memory");
        let mut service = CacheService::new(&Shared::new(cache, options, None, None));
        let session = service.open(Peer::Unix);
        Bench { service, session }
    }

    /// Lines of the answer, and rests on the way to it.
    fn ask(&mut self, request: &[u8]) -> (usize, usize) {
        let (mut rest, mut lines, mut rests) = (request, 0, 0);
        loop {
            self.service.begin_turn(NOW);
            let mut output: Output<PinnedSlice> = Output::default();
            let handled = self.service.handle(&mut self.session, rest, &mut output);
            let text = output.pieces().flatten();
            lines += text.filter(|byte| **byte == b'\n').count();
            rest = &rest[handled.consumed..];
            rests += usize::from(handled.next == Next::Rest);
            let goes_on = matches!(handled.next, Next::Again | Next::Rest | Next::Soon);
            if rest.is_empty() && !goes_on {
                return (lines, rests);
            }
        }
    }
}

#[test]
fn a_list_rests_for_what_it_finds_and_not_for_empty_lines() {
    let mut bench = Bench::new();
    for list in ["lru_crawler metadump all\r\n", "stats cachedump 1 1\r\n"] {
        let (lines, rests) = bench.ask(list.as_bytes());
        assert_eq!(lines, 1, "{list}");
        assert!(rests < 20, "{rests} rests of 1 ms in an empty cache: {list}");
    }
    const ITEMS: usize = 20_000;
    for number in 0..ITEMS {
        bench.ask(format!("set key-{number} 0 0 1 noreply\r\nv\r\n").as_bytes());
    }
    let (lines, rests) = bench.ask(b"lru_crawler metadump all\r\n");
    assert_eq!(lines, ITEMS + 1);
    assert!(rests > ITEMS / 600, "{rests}");
    // Five items of their class are in the first few lines.
    let classes = (1..=10).map(|class| bench.ask(format!("stats cachedump {class} 5\r\n").as_bytes()));
    let found: Vec<_> = classes.filter(|(lines, _)| *lines > 1).collect();
    assert!(found.contains(&(6, 0)), "{found:?}");
}
