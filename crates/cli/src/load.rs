//! `tickscope load`: sends a load of tuples when it is due, as a program of a run or by itself.

use std::path::Path;
use std::time::Duration;

use tickscope_experiment::interrupt;
use tickscope_generator::{
    ErrorKind, GeneratorPlan, IdForm, IdPlace, Law, LoadReport, Replies, Transport, TupleSource, generate,
};
use tickscope_load::EventRate;
use tickscope_tick::counted;

use crate::failure::Failure;
use crate::options::{GeneratorOptions, RepliesOption, TransportOption};
use crate::output::{note, print_json_line};

/// Bytes of a tuple that nothing says more of.
const SIZE: u32 = 100;
/// A day: nothing of a load takes longer than that on purpose.
const MOST_SECONDS: f64 = 86_400.0;

/// Sends it, and prints in a line what it came to.
pub fn load(options: &GeneratorOptions) -> Result<(), Failure> {
    let plan = plan(options)?;
    interrupt::catch();
    note(format_args!("sending {} tuples/s to {} for {} s", options.rate, plan.address, options.seconds));
    let report = generate(&plan, &interrupt::ENDED).map_err(|e| match e.kind() {
        ErrorKind::Input => Failure::input(e),
        ErrorKind::Work => Failure::work(e),
    })?;
    print_json_line(&report)?;
    match report {
        LoadReport { ended: Some(why), .. } => Err(Failure::work(format!("the load ended before its time: {why}"))),
        LoadReport { replies: Some(0), sent: sent @ 1.., .. } => Err(Failure::work(format!(
            "expected replies to {}, found none: does {} answer, and in this form? Else leave --replies out",
            counted(sent, "tuple"),
            plan.address
        ))),
        _ => Ok(()),
    }
}

fn plan(options: &GeneratorOptions) -> Result<GeneratorPlan, Failure> {
    let tuples = tuples(options)?;
    let form = if options.id_text { IdForm::Text } else { IdForm::Binary };
    let sized = options.tuple.is_none() && options.lines.is_none();
    let at = options.id_at.or((sized || options.id_text).then_some(0));
    Ok(GeneratorPlan {
        transport: match options.transport {
            TransportOption::Tcp => Transport::Tcp,
            TransportOption::Udp => Transport::Udp,
            TransportOption::Http => Transport::Http { path: path(&options.path)? },
            TransportOption::Zmq => Transport::Zmq,
            TransportOption::Kafka => Transport::Kafka { topic: topic(options.topic.as_deref())? },
        },
        address: options.address.clone(),
        rate: EventRate::per_second(options.rate).map_err(|e| Failure::input(format!("--rate: {e}")))?,
        law: options.poisson.map_or(Law::Constant, Law::Poisson),
        lasts: Duration::from_secs_f64(options.seconds),
        senders: options.senders,
        tuples,
        id: at.map(|at| IdPlace { at, form }),
        first_id: options.first_id,
        pill: options.pill,
        replies: match (options.transport, options.replies) {
            (TransportOption::Http, None) => Replies::Http,
            (TransportOption::Kafka, None) => Replies::Acknowledged,
            (_, None | Some(RepliesOption::None)) => Replies::None,
            (_, Some(RepliesOption::Lines)) => Replies::Lines,
            (_, Some(RepliesOption::Echo)) => Replies::Echo,
        },
        late: duration("--late", options.late / 1e3)?,
        linger: duration("--linger", options.linger)?,
        connect_within: duration("--connect-within", options.connect_within)?,
    })
}

fn duration(option: &str, seconds: f64) -> Result<Duration, Failure> {
    if (0.0..=MOST_SECONDS).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(Failure::input(format!("{option}: expected 0 to {MOST_SECONDS} seconds, found {seconds}. Give a day at most")))
}

/// A path goes into a request as it is: so it may not end its line.
fn path(text: &str) -> Result<String, Failure> {
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.into());
    }
    Err(Failure::input(format!("--path: expected a path such as /events, without blanks, found '{text}'. Encode them")))
}

/// As Kafka has them.
fn topic(name: Option<&str>) -> Result<String, Failure> {
    let name = name.unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=249).contains(&name.len()) && name.chars().all(fits) && name != "." && name != ".." {
        return Ok(name.into());
    }
    Err(Failure::input(format!(
        "--topic: expected a name of 1 to 249 letters, digits, '.', '_' and '-', found '{name}'. Name the topic that \
         kafka keeps the tuples in"
    )))
}

fn tuples(options: &GeneratorOptions) -> Result<TupleSource, Failure> {
    let read = |option: &str, file: &Path| {
        std::fs::read(file)
            .map_err(|e| Failure::input(format!("{option}: cannot read {}: {e}; name a file", file.display())))
    };
    Ok(match (&options.tuple, &options.lines) {
        (Some(file), _) => TupleSource::Copies(read("--tuple", file)?),
        (_, Some(file)) => {
            TupleSource::InTurn(read("--lines", file)?.split_inclusive(|&byte| byte == b'\n').map(Vec::from).collect())
        }
        _ => TupleSource::Copies(vec![0; options.size.unwrap_or(SIZE) as usize]),
    })
}
