//! The example of the Cm* study on its page: what it was taken from, and what is guaranteed of a run's calls.

use tickscope_clock::example::{ByClock, Example, Guaranteed, Reach, RunFacts};

use super::example::count;
use super::table;
use crate::text::Text;

/// What the figures are of, and how far they can be trusted.
pub fn lead(example: &Example) -> String {
    let Some(RunFacts { directory, network, rho, half_width, late, abandoned, incomplete, left_out, .. }) =
        &example.run
    else {
        return "<section class=\"lead\"><p>What a message and a remote procedure call cost between two processes, against the words of 16 bits that \
                they access in shared memory, with one to three pairs at once: the example of the Cm* study, on this host.</p><p>These are estimates, \
                not bounds: what reading the clock cost was subtracted by the method that the test in every repetition chose.</p></section>"
            .into();
    };
    let known =
        half_width.map_or_else(String::new, |reach| format!("; the server's clock is known to ±{} ns", reach.ns(0)));
    format!(
        "<section class=\"lead\"><p>What a message and a remote procedure call cost between two nodes, against the words of 16 bits that their \
         datagrams carry, with one to three pairs at once: the example of the Cm* study, from a run.</p><p>Figures are estimates: what the stamps \
         cost was subtracted by the method that the test before every call chose. What is guaranteed stands in a table of its own.</p>\
         <p>{}: {}; rho {}{known}. {late} calls began late, {abandoned} repetitions were made again, {} calls were left out.</p></section>",
        Text(directory),
        Text(network),
        Text(rho),
        incomplete + left_out
    )
}

/// What holds whatever the clocks of the nodes did.
pub fn guaranteed(clock: &ByClock) -> String {
    let cells = clock.loads.iter().flat_map(|load| load.cells.iter().map(move |cell| (load.pairs, cell)));
    let rows = cells.filter_map(|(pairs, cell)| {
        let Guaranteed { latency_median, latency_p95, rpc_median } = cell.guaranteed?;
        let bounds = [latency_median, latency_p95, rpc_median].map(|bound| format!("{bound} us"));
        Some([vec![format!("{}, {} words", count(pairs), cell.words)], bounds.to_vec()].concat())
    });
    let columns = ["pairs", "latency, median", "95 of 100", "call, median"];
    let note = "<p class=\"note\">From stamp to stamp, nothing subtracted, whatever the network and the clocks did within rho. All latencies of the run \
                are off together, but for drift.";
    let most = clock.loads.iter().filter_map(|load| load.latency_slope_clock).max_by_key(|reach| reach.ns(2));
    let slope = most.map_or_else(String::new, |reach: Reach| {
        format!(" The clocks can have moved what a word costs a message by {} ns at most.", reach.ns(2))
    });
    format!("{note}{slope}</p>{}", table("Guaranteed intervals", &columns, rows))
}
