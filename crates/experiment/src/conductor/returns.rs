//! The run's return trips: which nodes acknowledge the stamps of the policy `return-trip`, and which answer.
//!
//! Guarantees: a run whose layout has no end under that policy on another node than its start has none of this; keys
//! are drawn for this alone and handed out through the pipes of the processes; whatever becomes of it is an event and
//! ends no run. Deliberately absent: a role that starts when the policy is switched on while the run goes on.

use std::collections::BTreeMap;

use tickscope_stamp::policies::Choice;
use tickscope_stamp::policy::matches;
use tickscope_store::PolicyRule;
use tickscope_tick::PointName;
use tickscope_trace::StageRole;

use super::probes::draw_key;
use super::*;
use crate::roles::returns::{EndSettings, ReturnReport, SinkSettings, SourceSettings};

/// Name of the policy whose stamps are acknowledged.
const POLICY: &str = "return-trip";

impl Conductor<'_> {
    /// Those that answer first, then those that acknowledge.
    pub(super) fn start_returns(&mut self) -> Result<(), Error> {
        let (run, plan) = (self.record.run.manifest().run, self.plan.return_trip);
        let mut answering: BTreeMap<usize, Vec<EndSettings>> = BTreeMap::new();
        let mut acknowledging = Vec::new();
        for ((sink, source), points) in self.plan.returns() {
            let key = draw_key()?;
            answering.entry(source).or_default().push(EndSettings { id: sink as u32, key: key.clone() });
            let (address, to) = (self.nodes[sink].address.clone(), (self.nodes[source].address.clone(), plan.port));
            let (id, source) = (sink as u32, (self.nodes[source].name.clone(), source as u32));
            let settings = SinkSettings { run, id, address, points, source, to, key, most_hz: plan.most_hz };
            acknowledging.push((sink, settings));
        }
        for (at, ends) in answering {
            let listen = (self.nodes[at].address.clone(), plan.port);
            let settings = SourceSettings { run, id: at as u32, listen, ends };
            self.start_return(HelperKind::ReturnSource, at, Role::ReturnAnswer(settings));
        }
        for (at, settings) in acknowledging {
            self.start_return(HelperKind::ReturnSink, at, Role::ReturnAcknowledge(settings));
        }
        Ok(())
    }

    fn start_return(&mut self, kind: HelperKind, at: usize, role: Role) {
        if let Err(why) = self.start_helper(kind, at, at, role) {
            notice::say(&why);
            self.note_at(at, EventKind::ReturnsLost, None, why.to_string());
        }
    }

    /// Ends them, those that acknowledge first.
    pub(super) fn stop_returns(&mut self) {
        for kind in [HelperKind::ReturnSink, HelperKind::ReturnSource] {
            for of in 0..self.nodes.len() {
                let Some(helper) = self.nodes[of].helper(kind).take() else { continue };
                match self.stop_helper(kind, helper).and_then(|ended| ended.report()) {
                    Ok(report) => self.note_returns(of, &report),
                    Err(why) => self.note_at(of, EventKind::ReturnsLost, None, why.to_string()),
                }
            }
        }
    }

    fn note_returns(&mut self, at: usize, report: &ReturnReport) {
        let ReturnReport { seen, sent, answered, lost, of_ids, left_out, refused } = report;
        for (reason, count) in refused {
            let text = format!("the return trip refused datagrams: {reason}. Only that comparison lacks them");
            self.note_at(at, EventKind::DatagramsRefused, Some(*count as i64), text);
        }
        if *lost > 0 {
            let text = format!("of {sent} acknowledgements {answered} were answered and stored");
            self.note_at(at, EventKind::ReturnsLost, Some(*lost as i64), text);
        }
        if *left_out > 0 {
            let most = self.plan.return_trip.most_hz;
            let text = format!(
                "more stamps under {POLICY} than return_trip.most_hz, {most} a second: of {seen} stamps {left_out} \
                 were not acknowledged; of ids, 1 of {of_ids} at the end"
            );
            self.note_at(at, EventKind::ReturnsThinned, Some(i64::from(*of_ids)), text);
        }
    }
}

impl Plan {
    /// The nodes that acknowledge and the one that answers each, with the points: ends of the layout on another node
    /// than their start, under `return-trip`. An end of several starts is acknowledged to the first.
    pub(crate) fn returns(&self) -> BTreeMap<(usize, usize), Vec<PointName>> {
        let mut found: BTreeMap<(usize, usize), Vec<PointName>> = BTreeMap::new();
        let Some(layout) = self.has_layout().then(|| self.layout.parse(None).ok()).flatten() else { return found };
        let mut ends = Vec::new();
        for whole in layout.stages().iter().filter(|stage| stage.role == StageRole::EndToEnd) {
            let [start, end] = [whole.from, whole.to].map(|at| &layout.points()[at].place);
            if ends.contains(&whole.to) || start.node == end.node || !is_returned(&self.policies, &end.point) {
                continue;
            }
            let at = |node: &NodeName| self.nodes.iter().position(|known| known.name == *node);
            let (Some(source), Some(sink)) = (at(&start.node), at(&end.node)) else { continue };
            // One node acknowledges to one other: its further starts' ends are left out.
            if found.keys().any(|&(known, to)| known == sink && to != source) {
                continue;
            }
            ends.push(whole.to);
            found.entry((sink, source)).or_default().push(end.point.clone());
        }
        found
    }
}

/// Whether the first rule that matches the point names the policy.
fn is_returned(rules: &[PolicyRule], point: &PointName) -> bool {
    let rule = rules.iter().find(|rule| matches(&rule.channels, point.as_str()));
    rule.is_some_and(|rule| rule.policy.parse::<Choice>().is_ok_and(|choice| choice.policy().name() == POLICY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is acknowledged where, of nodes a, b and c, with this layout and this rule.
    fn returns(layout: &str, rule: (&str, &str)) -> Vec<(usize, usize, String)> {
        let mut text =
            format!("run = {{ name = \"r\", seconds = 1 }}\n[clock]\nreference = \"a\"\n[layout]\n{layout}\n");
        for node in ["a", "b", "c"] {
            text += &format!("[[node]]\nname = \"{node}\"\ncommand = [\"true\"]\nends_run = true\n");
        }
        text += &format!("[[policy]]\nchannels = \"{}\"\npolicy = \"{}\"\n", rule.0, rule.1);
        let found = Plan::parse(&text).unwrap().returns();
        let points = |points: &Vec<PointName>| points.iter().map(PointName::as_str).collect::<Vec<_>>().join(" ");
        found.iter().map(|((sink, source), of)| (*sink, *source, points(of))).collect()
    }

    #[test]
    fn ends_under_the_policy_on_another_node_than_their_start_are_acknowledged_to_it_and_no_other_point() {
        let path = "path = [\"a.send\", \"b.through\", \"c.sink\"]";
        let all = ("*", "return-trip");
        assert_eq!(returns(path, all), [(2, 0, "sink".into())]);
        assert_eq!(returns(path, ("sink", "return-trip")).len(), 1);
        assert_eq!(returns(path, ("through", "return-trip")), []);
        assert_eq!(returns(path, ("*", "buffered")), []);
        assert_eq!(returns("path = [\"a.send\", \"b.through\", \"a.back\"]", all), [], "it ends where it began");
        let fork = "edges = [\"a.send > b.left\", \"a.send > b.right\", \"a.send > c.sink\", \"a.send > a.own\"]";
        assert_eq!(returns(fork, all), [(1, 0, "left right".into()), (2, 0, "sink".into())]);
    }

    #[test]
    fn an_end_of_several_starts_is_acknowledged_to_one() {
        let merge = "edges = [\"a.send > c.sink\", \"b.send > c.sink\"]";
        assert_eq!(returns(merge, ("*", "return-trip")).len(), 1);
    }
}
