//! What a run is asked while it goes on: requests become orders to the collectors, their answers a reply.
//!
//! Live rules are the conductor's: whenever a node's collector is another process than the one that was told, or its
//! agent is reached again, it is told them all. Guarantees: a node that does not answer delays a reply by a limit and
//! is named in it, and no request stops the run.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tickscope_collect::EVERY_POINT;

use super::*;
use crate::control::{Asked, Control, RULES, RULES_NEW, RunRequest};
use crate::plan::DumpPlan;
use crate::roles::live::{
    ChannelText, CollectorAnswer as Answer, CollectorOrder as Order, RuleText, TriggerText, answer_of,
};

/// Time that collectors get to answer: while a segment is written they answer nobody.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Pause before a collector is told again what it could not follow.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Rules of a run.
const MOST_RULES: usize = 100;
/// Bytes of the file that keeps them.
const MOST_RULE_BYTES: u64 = 1 << 20;

/// What a run has for those who ask.
#[derive(Default)]
pub(super) struct Live {
    control: Option<Control>,
    rules: Vec<Given>,
    /// Number of the order that tells these rules; 0: none were given.
    rules_number: u64,
    /// Number of the last order.
    number: u64,
    /// The process of each node that was told the rules, and which.
    told: BTreeMap<usize, (TaskId, u64)>,
    /// When nodes that could not follow are told again.
    again: BTreeMap<usize, Instant>,
    /// The process of each node that was told which durations have what it keeps stored.
    triggered: BTreeMap<usize, TaskId>,
    serving: Vec<Serving>,
    /// Until then answers are looked for.
    expected: Option<Instant>,
    /// How each agent is reached, and since when.
    since: Vec<(Connection, Instant)>,
    began: Option<Instant>,
}

/// A rule, and the node whose channels it is for; absent: all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Given {
    node: Option<NodeName>,
    #[serde(flatten)]
    rule: RuleText,
}

/// A request that nodes still have to answer.
struct Serving {
    asked: Asked,
    number: u64,
    until: Instant,
    nodes: Vec<(usize, Heard)>,
}

/// What a node answered.
#[derive(Default)]
struct Heard {
    whole: bool,
    failed: Option<String>,
    channels: Vec<ChannelText>,
    left_out: u64,
    other: Option<Answer>,
}

impl Heard {
    fn failed(why: impl ToString) -> Self {
        Self { whole: true, failed: Some(why.to_string()), ..Self::default() }
    }

    fn add(&mut self, answer: Answer) {
        match answer {
            Answer::Channels { channels, left_out, last } => {
                self.channels.extend(channels);
                (self.left_out, self.whole) = (left_out, last);
            }
            Answer::Failed(why) => *self = Self::failed(why),
            other => (self.other, self.whole) = (Some(other), true),
        }
    }
}

impl Conductor<'_> {
    /// Lets others ask from now on. Without that the run goes on all the same.
    pub(super) fn open_control(&mut self) {
        let (run, root) = (self.record.run.manifest().run, self.record.run.root().to_owned());
        match Control::open(run, &root) {
            Ok(control) => self.live.control = Some(control),
            Err(why) => notice::say(why),
        }
        self.recall_rules();
        let now = Instant::now();
        self.live.since = self.agents.iter().map(|(_, agent)| (agent.connection(), now)).collect();
        self.live.began = Some(now);
    }

    /// Nobody may ask any more.
    pub(super) fn close_control(&mut self) {
        self.live.control = None;
        for one in std::mem::take(&mut self.live.serving) {
            self.reply(one, "the run is ending, and it had not answered yet"); // others may have, and switched
        }
        let _ = std::fs::remove_file(self.rules_place()); // it goes with its folder
    }

    /// Answers what was asked, as far as it is known by now.
    pub(super) fn serve_control(&mut self) {
        for ((_, agent), (known, since)) in self.agents.iter().zip(&mut self.live.since) {
            if agent.connection() != *known {
                (*known, *since) = (agent.connection(), Instant::now());
            }
        }
        while let Some(asked) = self.live.control.as_ref().and_then(Control::next) {
            self.begin_serving(asked);
        }
        self.dump_on_signal();
        self.tell_rules();
        self.tell_triggers();
        self.hear_answers();
        self.end_serving();
    }

    fn begin_serving(&mut self, asked: Asked) {
        self.live.number += 1;
        let number = self.live.number;
        let (order, node) = match &asked.request {
            RunRequest::Channels { all } => (Some(Order::Channels(number, *all)), None),
            RunRequest::Status => (Some(Order::Totals(number)), None),
            RunRequest::Dump { glob, node } => {
                if let Err(why) = node.as_ref().map_or(Ok(()), |node| self.expect_node(node)) {
                    return asked.reply(Err(why));
                }
                let of = if glob == EVERY_POINT { String::new() } else { format!(" for {glob}") };
                let why = format!("tickscope dump asked{of}");
                (Some(Order::Dump { number, points: glob.clone(), why }), node.clone())
            }
            RunRequest::Policy { glob, policy, node } => {
                let rule = RuleText { glob: glob.clone(), policy: policy.clone() };
                if let Err(why) = self.add_rule(Given { node: node.clone(), rule }) {
                    return asked.reply(Err(why));
                }
                self.live.rules_number = number;
                self.live.again.clear();
                self.tell_rules(); // before another request gives them another number
                (None, node.clone())
            }
        };
        let meant = (0..self.nodes.len()).filter(|&at| node.as_ref().is_none_or(|node| self.nodes[at].name == *node));
        let mut nodes = Vec::new();
        for at in meant.collect::<Vec<_>>() {
            let told = self.collector_of(at).and_then(|task| match &order {
                Some(order) => self.agent(at).post(task, &order.line()).map_err(|why| why.to_string()),
                None => Ok(()), // the rules are told to each collector that does not know them
            });
            nodes.push((at, told.map_or_else(Heard::failed, |()| Heard::default())));
        }
        let until = Instant::now() + ANSWER_WITHIN;
        self.live.expected = Some(until);
        self.live.serving.push(Serving { asked, number, until, nodes });
    }

    /// The process that collects a node's stamps, if it can be told something now.
    fn collector_of(&mut self, at: usize) -> Result<TaskId, String> {
        if self.agent(at).connection() != Connection::Open {
            return Err("its agent is not reached".into());
        }
        let helper = self.nodes[at].helper(HelperKind::Collector).as_ref();
        helper.and_then(|helper| helper.task).ok_or_else(|| "its collector is started again".into())
    }

    /// Adds a rule; it takes the place of an older one of the same points and node.
    fn add_rule(&mut self, given: Given) -> Result<(), Error> {
        given.node.as_ref().map_or(Ok(()), |node| self.expect_node(node))?;
        let mut rules = self.live.rules.clone();
        let is_replaced = |old: &Given| {
            let all = given.node.is_none() || given.node == old.node;
            all && (given.rule.glob == "*" || given.rule.glob == old.rule.glob)
        };
        rules.retain(|old| !is_replaced(old));
        rules.push(given);
        if rules.len() > MOST_RULES {
            return Err(Error::input(format!(
                "expected at most {MOST_RULES} rules at a time, found one more. A rule for '*' takes the place of all"
            )));
        }
        let place = self.rules_place();
        let text = serde_json::to_string(&rules).map_err(Error::work)?;
        // Whole or not at all: a conductor that takes over reads it.
        let new = place.with_file_name(RULES_NEW);
        let mut file = std::fs::OpenOptions::new();
        let file = file.write(true).create(true).truncate(true).mode(0o600).open(&new);
        let kept = file.and_then(|mut file| file.write_all(text.as_bytes()));
        let kept = kept.and_then(|()| std::fs::rename(&new, &place));
        kept.map_err(|e| Error::work(format!("cannot write {}: {e}. Free some of that tmpfs", place.display())))?;
        self.live.rules = rules;
        Ok(())
    }

    fn expect_node(&self, node: &NodeName) -> Result<(), Error> {
        if self.position(node).is_some() {
            return Ok(());
        }
        let known: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).take(MOST_RULES).collect();
        Err(Error::input(format!("expected a node of {}, found {node}. Correct it", known.join(", "))))
    }

    /// Has all nodes store what `keep` holds, if this process was sent SIGUSR1.
    fn dump_on_signal(&mut self) {
        if !interrupt::take_dump() {
            return;
        }
        self.live.number += 1;
        let (points, why) = (EVERY_POINT.into(), "tickscope run was sent SIGUSR1".into());
        let line = Order::Dump { number: self.live.number, points, why }.line();
        for at in 0..self.nodes.len() {
            let told = self.collector_of(at);
            let told = told.and_then(|task| self.agent(at).post(task, &line).map_err(|why| why.to_string()));
            if let Err(why) = told {
                notice::say(format!(
                    "cannot ask {} to store what its `keep` channels hold: {why}",
                    self.nodes[at].name
                ));
            }
        }
    }

    /// Tells each collector which durations have what it keeps stored.
    fn tell_triggers(&mut self) {
        for at in 0..self.nodes.len() {
            let of: Vec<TriggerText> = self.triggers_of(at);
            let Some(task) = self.collector_of(at).ok().filter(|_| !of.is_empty()) else { continue };
            if self.live.triggered.get(&at) != Some(&task)
                && self.agent(at).post(task, &Order::Triggers(0, of).line()).is_ok()
            {
                self.live.triggered.insert(at, task);
            }
        }
    }

    /// The limits in ticks by the declared frequency: a dump is no bound.
    fn triggers_of(&self, at: usize) -> Vec<TriggerText> {
        let name = &self.nodes[at].name;
        let nodes = &self.record.run.manifest().nodes;
        let hertz = nodes.iter().find(|node| node.name == *name).map_or(0, |node| node.counter.frequency.hertz);
        let ticks = |ns: u64| i64::try_from(u128::from(ns) * u128::from(hertz) / 1_000_000_000).unwrap_or(i64::MAX);
        let of = self.plan.dumps.iter().filter(|dump| dump.from.node == *name);
        let text = |dump: &DumpPlan| TriggerText {
            from: dump.from.point.clone(),
            to: dump.to.point.clone(),
            above_ticks: ticks(dump.above),
        };
        of.map(text).collect()
    }

    fn rules_place(&self) -> PathBuf {
        leftovers::stamps_of(self.record.run.manifest().run).join(RULES)
    }

    /// Takes over the rules that another conductor of this run was given.
    fn recall_rules(&mut self) {
        let file = tickscope_store::open_regular(&self.rules_place());
        let text = file.and_then(|file| std::io::read_to_string(std::io::Read::take(file, MOST_RULE_BYTES)));
        let rules: Option<Vec<Given>> = match text {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(rules) => Some(rules),
                Err(why) => {
                    notice::say(format!(
                        "the rules of tickscope policy in {} cannot be read: {why}. Give them again",
                        self.rules_place().display()
                    ));
                    None
                }
            },
            Err(_) => None, // mostly there is none
        };
        if let Some(rules) = rules.filter(|rules| !rules.is_empty()) {
            self.live.rules = rules;
            self.live.number += 1;
            self.live.rules_number = self.live.number;
        }
    }

    /// Tells each collector the rules that it does not know.
    fn tell_rules(&mut self) {
        let number = self.live.rules_number;
        if number == 0 {
            return;
        }
        for at in 0..self.nodes.len() {
            let Ok(task) = self.collector_of(at) else { continue };
            let waits = self.live.again.get(&at).is_some_and(|due| Instant::now() < *due);
            if waits || self.live.told.get(&at) == Some(&(task, number)) {
                continue;
            }
            let name = &self.nodes[at].name;
            let of = self.live.rules.iter().filter(|given| given.node.as_ref().is_none_or(|node| node == name));
            let line = Order::Rules(number, of.map(|given| given.rule.clone()).collect()).line();
            match self.agent(at).post(task, &line) {
                Ok(()) => _ = self.live.told.insert(at, (task, number)),
                Err(_) => self.tell_again(at), // one that died is started again
            }
            self.live.expected = Some(Instant::now() + ANSWER_WITHIN);
        }
    }

    fn tell_again(&mut self, at: usize) {
        self.live.told.remove(&at);
        self.live.again.insert(at, Instant::now() + TELL_AGAIN_AFTER);
    }

    fn hear_answers(&mut self) {
        if self.live.expected.is_none_or(|until| Instant::now() >= until) {
            return;
        }
        for at in 0..self.nodes.len() {
            let Ok(task) = self.collector_of(at) else { continue };
            let lines = self.agent(at).answers(task).unwrap_or_default();
            for (number, answer) in lines.iter().filter_map(|line| answer_of(line)) {
                if number == self.live.rules_number && matches!(answer, Answer::Failed(_)) {
                    self.tell_again(at);
                }
                let serving = self.live.serving.iter_mut().find(|serving| serving.number == number);
                let heard = serving.and_then(|serving| serving.nodes.iter_mut().find(|(node, _)| *node == at));
                if let Some((_, heard)) = heard {
                    heard.add(answer);
                }
            }
        }
    }

    /// Replies to those whose nodes have all answered, or had the time to.
    fn end_serving(&mut self) {
        let (now, serving) = (Instant::now(), std::mem::take(&mut self.live.serving));
        for one in serving {
            if now < one.until && one.nodes.iter().any(|(_, heard)| !heard.whole) {
                self.live.serving.push(one);
                continue;
            }
            self.reply(one, &format!("its collector did not answer within {} s", ANSWER_WITHIN.as_secs()));
        }
    }

    /// Replies with what nodes answered, and why the others did not.
    fn reply(&self, mut serving: Serving, why_not: &str) {
        for (_, heard) in serving.nodes.iter_mut().filter(|(_, heard)| !heard.whole) {
            *heard = Heard::failed(why_not);
        }
        let reply = self.reply_of(&serving);
        serving.asked.reply(Ok(reply));
    }

    fn reply_of(&self, serving: &Serving) -> Value {
        let nodes: Vec<Value> = serving.nodes.iter().map(|(at, heard)| self.node_reply(*at, heard, serving)).collect();
        let mut reply = json!({ "nodes": nodes });
        if serving.asked.request == RunRequest::Status {
            let went_on = self.live.began.map(|began| began.elapsed().as_secs_f64());
            reply["seconds"] = json!(went_on);
            reply["wanted_seconds"] = json!(self.plan.run.seconds);
            reply["rules"] = json!(self.live.rules);
        }
        reply
    }

    fn node_reply(&self, at: usize, heard: &Heard, serving: &Serving) -> Value {
        let node = &self.nodes[at];
        let mut reply = json!({ "node": node.name.as_str() });
        if let Some(why) = &heard.failed {
            let stays = matches!(serving.asked.request, RunRequest::Policy { .. }) && self.live.control.is_some();
            let then = if stays { "; the rule is kept, and sent once the node answers" } else { "" };
            reply["failed"] = json!(format!("{why}{then}"));
        }
        match &heard.other {
            Some(Answer::Switched { channels, before, after }) => {
                let domain = self.counter(at).to_string();
                let switched = json!({ "channels": channels, "domain": domain, "before": before, "after": after });
                reply["switched"] = switched;
            }
            Some(Answer::Dumped { stamps, channels }) => {
                reply["dumped"] = json!({ "stamps": stamps, "channels": channels });
            }
            Some(Answer::Totals { open, closed, stamps, lost }) => {
                reply["channels"] = json!({ "open": open, "closed": closed });
                (reply["stamps"], reply["lost"]) = (json!(stamps), json!(lost));
            }
            _ => {}
        }
        match &serving.asked.request {
            RunRequest::Channels { .. } => {
                (reply["channels"], reply["left_out"]) = (json!(heard.channels), json!(heard.left_out));
            }
            RunRequest::Status => {
                let (connection, since) = &self.live.since[node.agent];
                let host = &self.agents[node.agent].0;
                reply["host"] = json!(host);
                reply["connection"] = json!(connection_name(*connection));
                reply["since_seconds"] = json!(since.elapsed().as_secs_f64());
            }
            RunRequest::Policy { .. } | RunRequest::Dump { .. } => {}
        }
        reply
    }
}

fn connection_name(connection: Connection) -> &'static str {
    match connection {
        Connection::Open => "open",
        Connection::Broken => "broken",
        Connection::Lost => "lost",
    }
}
