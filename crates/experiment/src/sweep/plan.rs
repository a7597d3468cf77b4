//! `[sweep]` of a run file, checked at every point: parameters, repetitions, order, and what is taken from each trial.
//!
//! Guarantees: each point's run file is a plan; every parameter is used, and nothing is asked for that is none.
//! Deliberately absent: measuring.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tickscope_store::{
    AgeFigure, Measure, ParameterValue, PrintedField, SweepManifest, SweepOrder, SweepParameter, TrialRecord,
};
use tickscope_tick::{NodeName, Place, acts, counted};
use tickscope_trace::Layout;

use super::parameters::{MOST_TRIALS, OF_THE_RUN, ParameterPlan, REPETITION, grid, points_of};
use super::substitution::{Substitution, names};
use crate::Error;
use crate::plan::Plan;
use crate::run_file::{RunText, within};

/// A run file of many trials.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// The run file.
    pub(crate) file: RunText,
    pub(crate) parameters: Vec<SweepParameter>,
    pub(crate) repetitions: u32,
    pub(crate) order: SweepOrder,
    /// `None`: drawn when the sweep begins.
    pub(crate) seed: Option<u32>,
    pub(crate) measures: Vec<Measure>,
    pub(crate) fields: Vec<PrintedField>,
    /// Whether a search says which trials are made, one by one.
    pub(crate) is_search: bool,
    /// The plan of the first point.
    pub(crate) first: Plan,
    /// The run file without its `[sweep]`, nor the folder, which is the sweep's.
    table: toml::Table,
}

#[derive(Deserialize)]
struct File {
    sweep: Option<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(rename = "parameter")]
    parameters: Vec<ParameterPlan>,
    #[serde(default = "once")]
    repetitions: u32,
    #[serde(default)]
    order: SweepOrder,
    seed: Option<u32>,
    #[serde(default)]
    measure: Vec<MeasurePlan>,
}

/// Longest name of a number, and of its unit.
const MOST_LETTERS: usize = 100;

fn is_word(text: &str) -> bool {
    (1..=MOST_LETTERS).contains(&text.chars().count()) && !text.chars().any(acts)
}

fn once() -> u32 {
    1
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasurePlan {
    stage: Option<String>,
    quantile: Option<f64>,
    age: Option<[Place; 2]>,
    of: Option<AgeFigure>,
    key: Option<i64>,
    field: Option<String>,
    node: Option<NodeName>,
    unit: Option<String>,
}

impl MeasurePlan {
    fn of_stage(stage: &str) -> Self {
        Self { stage: Some(stage.into()), ..Self::default() }
    }

    /// The number of a program that is asked for; `None`: it is something else.
    fn printed(&self) -> Option<PrintedField> {
        let Self { stage: None, quantile: None, age: None, of: None, key: None, field, node, unit } = self else {
            return None;
        };
        Some(PrintedField { field: field.clone()?, node: node.clone(), unit: unit.clone() })
    }

    /// A stage without a quantile is measured at two.
    fn measures(&self) -> Result<Vec<Measure>, String> {
        if self.field.is_some() || self.node.is_some() || self.unit.is_some() {
            return Err(neither());
        }
        match self {
            Self { stage: Some(stage), quantile, age: None, of: None, key: None, .. } => {
                let quantiles = quantile.map_or(vec![0.5, 0.99], |one| vec![one]);
                quantiles.iter().try_for_each(|&share| within("quantile of sweep.measure", share, 1e-6, 1.0))?;
                let of = |quantile| Measure::Stage { stage: stage.clone(), quantile };
                Ok(quantiles.into_iter().map(of).collect())
            }
            Self { stage: None, quantile: None, age: Some(age), of, key, .. } => {
                Ok(vec![Measure::Age { age: age.clone(), of: of.unwrap_or_default(), key: *key }])
            }
            _ => Err(neither()),
        }
    }
}

fn neither() -> String {
    "[sweep] measure: expected { stage = \"A > B\", quantile = 0.99 }, { age = [\"A\", \"B\"], of = \"average\" } or \
     { field = \"NAME\", unit = \"UNIT\" }, found something else. Write one of the three"
        .into()
}

impl SweepPlan {
    /// The sweep of a run file; `None`: it has none.
    pub fn of(file: &RunText) -> Result<Option<Self>, Error> {
        let in_file = |why: String| Error::input(format!("{}: {why}", file.name));
        let told = |e: toml::de::Error| in_file(e.to_string().trim_end().to_owned());
        let File { sweep: Some(section) } = toml::from_str(&file.text).map_err(told)? else { return Ok(None) };
        Self::checked(file, &section).map(Some).map_err(in_file)
    }

    /// Trials of a search for a value of that parameter, none of which is known beforehand.
    pub(crate) fn of_search(file: &RunText, parameter: ParameterPlan, stage: &str) -> Result<Self, String> {
        let measure = vec![MeasurePlan::of_stage(stage)];
        let order = SweepOrder::Given;
        let section = Section { parameters: vec![parameter], repetitions: 1, order, seed: Some(0), measure };
        Ok(Self { is_search: true, ..Self::checked(file, &section)? })
    }

    fn checked(file: &RunText, section: &Section) -> Result<Self, String> {
        let mut table: toml::Table = toml::from_str(&file.text).map_err(|e| e.to_string())?;
        table.remove("sweep");
        table.remove("sustain");
        let parameters = section.parameters.iter().map(ParameterPlan::parameter).collect::<Result<Vec<_>, _>>()?;
        let known: Vec<&str> = parameters.iter().map(|of| of.name.as_str()).collect();
        if let Some(twice) = known.iter().enumerate().find(|(at, name)| known[..*at].contains(name)) {
            return Err(format!("expected parameters that differ, found '{}' twice. Leave one out", twice.1));
        }
        within("sweep.repetitions", section.repetitions.into(), 1.0, MOST_TRIALS as f64)?;
        let first = vec![0; parameters.len()];
        let mut plan = Self {
            first: first_plan(&mut table, &parameters, &first)?,
            file: file.clone(),
            parameters,
            repetitions: section.repetitions,
            order: section.order,
            seed: section.seed,
            measures: Vec::new(),
            fields: Vec::new(),
            is_search: false,
            table,
        };
        plan.first.run.out = plan.first.run.out.map(|out| file.folder.join(out));
        plan.first.origin.folder = file.folder.clone();
        plan.expect_few()?;
        plan.fields = plan.printed(&section.measure)?;
        plan.measures = plan.measured(&section.measure)?;
        plan.expect_known_names()?;
        for point in grid(&plan.parameters) {
            let told = |why| format!("with {}: {why}", SweepParameter::told(&plan.parameters, &point));
            Plan::parse(&plan.text(&point, 1)).map_err(told)?;
        }
        Ok(plan)
    }

    /// How many trials there are.
    pub(crate) fn trials(&self) -> u64 {
        points_of(&self.parameters).saturating_mul(self.repetitions.into())
    }

    /// Seconds that all trials measure, as the first one does.
    pub(crate) fn seconds(&self, each: f64) -> f64 {
        self.trials() as f64 * each
    }

    fn expect_few(&self) -> Result<(), String> {
        let trials = self.trials();
        if trials <= MOST_TRIALS {
            return Ok(());
        }
        let values: Vec<String> = self.parameters.iter().map(|of| of.values.len().to_string()).collect();
        Err(format!(
            "[sweep] expected at most {MOST_TRIALS} trials, found {trials}: {} points, {} of each, which measure for \
             {} at least. Take fewer values or repetitions",
            values.join(" x "),
            self.repetitions,
            duration(self.seconds(self.first.run.seconds))
        ))
    }

    /// What is taken from each trial: stages of the layout, and ages of its nodes.
    fn measured(&self, asked: &[MeasurePlan]) -> Result<Vec<Measure>, String> {
        let whole = MeasurePlan::of_stage("end-to-end");
        let asked = if asked.is_empty() { std::slice::from_ref(&whole) } else { asked };
        let timed = asked.iter().filter(|one| one.printed().is_none());
        let measures = timed.map(MeasurePlan::measures).collect::<Result<Vec<_>, _>>()?.concat();
        let layout = self.first.has_layout().then(|| self.first.layout.parse(None)).transpose();
        let layout = layout.map_err(|e| format!("[layout] {e}"))?;
        for measure in &measures {
            match (measure, &layout) {
                (Measure::Stage { stage, .. }, Some(layout)) => {
                    layout.stage_named(stage).map_err(|e| format!("[sweep] measure: {e}"))?;
                }
                (Measure::Stage { stage, .. }, None) => {
                    return Err(format!(
                        "[sweep] measure: expected a [layout] that has the stage '{stage}', found none. Add the points \
                         that ids pass, in order"
                    ));
                }
                (Measure::Age { age, .. }, layout) => self.expect_points(age, layout.as_ref())?,
            }
        }
        Ok(measures)
    }

    /// Numbers of programs that are taken from each trial.
    fn printed(&self, asked: &[MeasurePlan]) -> Result<Vec<PrintedField>, String> {
        let fields: Vec<PrintedField> = asked.iter().filter_map(MeasurePlan::printed).collect();
        let nodes = self.nodes();
        for one in &fields {
            if let Some(node) = one.node.as_ref().filter(|node| !nodes.contains(&node.as_str())) {
                let nodes = nodes.join(", ");
                return Err(format!("[sweep] measure: expected a node ({nodes}), found '{node}'. Correct it"));
            }
            if [Some(&one.field), one.unit.as_ref()].into_iter().flatten().any(|text| !is_word(text)) {
                return Err(format!(
                    "[sweep] measure: expected a field and a unit of 1 to {MOST_LETTERS} letters that can be printed, \
                     found '{}' and '{}'. Shorten it",
                    one.field,
                    one.unit.as_deref().unwrap_or("none")
                ));
            }
        }
        Ok(fields)
    }

    fn nodes(&self) -> Vec<&str> {
        self.first.nodes.iter().map(|node| node.name.as_str()).collect()
    }

    /// Points of nodes that there are, and of the layout, outside of which nothing has an age.
    fn expect_points(&self, points: &[Place; 2], layout: Option<&Layout>) -> Result<(), String> {
        let nodes = self.nodes();
        let is_left_out = |place: &&Place| {
            let is_in = |layout: &Layout| layout.points().iter().any(|point| point.place == **place);
            !nodes.contains(&place.node.as_str()) || !layout.is_none_or(is_in)
        };
        points.iter().find(is_left_out).map_or(Ok(()), |place| {
            Err(format!(
                "[sweep] measure: expected points of a node ({}) that stand in the [layout], found '{place}'. Correct \
                 it",
                nodes.join(", ")
            ))
        })
    }

    /// A name in a command or in an environment is a parameter's, or one that every trial has.
    fn expect_known_names(&self) -> Result<(), String> {
        for node in &self.first.nodes {
            for text in node.command.iter().chain(node.environment.values()) {
                let of_node = |name: &str| name.strip_suffix(".address").is_some();
                if let Some(name) = names(text).find(|name| !OF_THE_RUN.contains(name) && !of_node(name)) {
                    let known: Vec<&str> = self.parameters.iter().map(|of| of.name.as_str()).collect();
                    return Err(format!(
                        "node '{}': expected the name of a parameter ({}), or one that every trial has ({}), found \
                         {{{name}}}. Correct it, or add a [[sweep.parameter]]",
                        node.name,
                        known.join(", "),
                        OF_THE_RUN.join(", ")
                    ));
                }
            }
        }
        Ok(())
    }

    /// The run file of a point's trial.
    pub(crate) fn text(&self, point: &[usize], repetition: u32) -> String {
        let repetition = ParameterValue::Integer(repetition.into());
        let values = SweepParameter::at(&self.parameters, point).chain([(REPETITION, &repetition)]);
        let table = Substitution::of(values).filled(&self.table);
        format!("# A trial of a sweep: {}\n{table}", SweepParameter::told(&self.parameters, point))
    }

    /// All trials, in the order in which they are to be made. A repetition goes through all points before the next one
    /// begins: what changes on the machine meanwhile is in all points alike, also where a sweep is cut off.
    pub(crate) fn ordered(&self, seed: u32) -> Vec<TrialRecord> {
        let points = grid(&self.parameters);
        let mut trials = Vec::new();
        for repetition in 1..=self.repetitions {
            let mut order: Vec<usize> = (0..points.len()).collect();
            if self.order == SweepOrder::Random {
                order.sort_by_key(|at| Sha256::digest(format!("{seed} {repetition} {at}")));
            }
            trials.extend(order.into_iter().map(|at| (repetition, points[at].clone())));
        }
        (1..).zip(trials).map(|(number, (repetition, point))| TrialRecord::missing(number, repetition, point)).collect()
    }

    /// What a sweep that begins writes down.
    pub(crate) fn begun(&self, seed: u32, (seconds, keep_ms): (Option<f64>, Option<u64>)) -> SweepManifest {
        SweepManifest {
            sweep: SweepManifest::VERSION,
            name: self.first.run.name.to_string(),
            run_file: self.file.text.clone(),
            run_file_place: self.file.place.clone(),
            run_file_directory: self.file.folder.clone(),
            seconds,
            keep_ms,
            parameters: self.parameters.clone(),
            repetitions: self.repetitions,
            order: self.order,
            seed,
            measures: self.measures.clone(),
            fields: self.fields.clone(),
            trials: if self.is_search { Vec::new() } else { self.ordered(seed) },
        }
    }

    /// In lines, for whoever checks a run file.
    pub(crate) fn describe(&self, seconds: f64) -> String {
        let values = |of: &SweepParameter| {
            let values: Vec<String> = of.values.iter().map(ToString::to_string).collect();
            format!("{} = {}", of.name, values.join(", "))
        };
        let parameters: Vec<String> = self.parameters.iter().map(values).collect();
        let fields = self.fields.iter().map(ToString::to_string);
        let measures: Vec<String> = self.measures.iter().map(ToString::to_string).chain(fields).collect();
        format!(
            "sweep: {}, {} of each point, measuring for {} at least: {}\ntaken from each trial: {}\nthe first point's \
             trial:\n",
            counted(self.trials(), "trial"),
            self.repetitions,
            duration(self.seconds(seconds)),
            parameters.join("; "),
            measures.join("; ")
        )
    }
}

/// The plan of the first point; every parameter is asked for somewhere. Takes out of the table what is the sweep's.
fn first_plan(table: &mut toml::Table, parameters: &[SweepParameter], first: &[usize]) -> Result<Plan, String> {
    let repetition = ParameterValue::Integer(1);
    let values = SweepParameter::at(parameters, first).chain([(REPETITION, &repetition)]);
    let mut substitution = Substitution::of(values);
    let filled = substitution.filled(table);
    if let Some(unused) = substitution.unused().filter(|name| *name != REPETITION) {
        return Err(format!(
            "[[sweep.parameter]] expected '{{{unused}}}' somewhere in the run file, found it nowhere. Write it where \
             its value belongs, or leave the parameter out"
        ));
    }
    let plan = Plan::parse(&filled.to_string())
        .map_err(|why| format!("with {}: {why}", SweepParameter::told(parameters, first)))?;
    if let Some(toml::Value::Table(run)) = table.get_mut("run") {
        run.remove("out");
    }
    Ok(plan)
}

/// `2 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        0..120 => format!("{whole} s"),
        120..7200 => format!("{} min", whole.div_ceil(60)),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}
