//! From replies to what the methods promise; and what an error becomes for those who want none.

use pyo3::exceptions::PyKeyError;
use pyo3::types::{
    PyAnyMethods, PyBool, PyBytes, PyDict, PyDictMethods, PyList, PyListMethods, PyTuple, PyTupleMethods,
};
use pyo3::{Bound, IntoPyObject, Py, PyAny, PyErr, PyResult, Python};
use scrubjay_client::protocol::{Reply, Value};
use scrubjay_client::{Error, Found, Seen};

use crate::failure;
use crate::values::Values;

/// What a caller was promised.
#[derive(Debug)]
pub(crate) enum Finish {
    /// The value, or this.
    Value { key: Py<PyAny>, default: Py<PyAny> },
    /// The value and its CAS number, or these.
    ValueCas {
        key: Py<PyAny>,
        default: Py<PyAny>,
        cas_default: Py<PyAny>,
    },
    /// The value, or `KeyError`.
    Item { key: Py<PyAny> },
    /// Whether there is a value.
    Found,
    /// Value, CAS number, and who refills: `(found, value, cas, won, taken, stale)`.
    Lease { key: Py<PyAny> },
    /// Whether it was done.
    Done,
    /// Whether it was stored; `None` if there was nothing to replace.
    Stored,
    /// The number, or `None`.
    Number,
    /// Bytes.
    Version,
    /// A dict of what was found.
    Values { keys: Py<PyTuple>, with_cas: bool },
    /// The list of keys that were not stored.
    NotStored { keys: Vec<Py<PyAny>> },
    /// True, whatever was found.
    True,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Outcome {
    One(Result<Reply, Error>),
    Many(Vec<Result<Reply, Error>>),
    Found(Found),
}

/// Which errors are exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// All.
    All,
    /// None of reads: they miss.
    OfChanges,
    /// None.
    Nothing,
}

impl Finish {
    fn reads(&self) -> bool {
        match self {
            Finish::Value { .. }
            | Finish::ValueCas { .. }
            | Finish::Item { .. }
            | Finish::Found
            | Finish::Lease { .. }
            | Finish::Values { .. } => true,
            Finish::Done
            | Finish::Stored
            | Finish::Number
            | Finish::Version
            | Finish::NotStored { .. }
            | Finish::True => false,
        }
    }

    /// What the method returns or raises.
    pub(crate) fn run(
        self,
        py: Python<'_>,
        values: &Values,
        raised: Raised,
        outcome: Outcome,
    ) -> PyResult<Py<PyAny>> {
        let raises = match raised {
            Raised::All => true,
            Raised::OfChanges => !self.reads(),
            Raised::Nothing => false,
        };
        match outcome {
            Outcome::Many(replies) => self.many(py, values, raises, replies),
            Outcome::Found(found) => self.found(py, values, raises, &found),
            Outcome::One(Err(error)) if raises => Err(failure::of_request(&error)),
            Outcome::One(Err(_)) => self.missed(py),
            Outcome::One(Ok(reply)) => match self.one(py, values, reply) {
                Err(_) if !raises => self.missed(py),
                result => result,
            },
        }
    }

    fn one(&self, py: Python<'_>, values: &Values, reply: Reply) -> PyResult<Py<PyAny>> {
        // What is withheld is for those who asked with a lease.
        let reply = match reply {
            Reply::Value(value) if value.is_withheld() && !matches!(self, Finish::Lease { .. }) => {
                Reply::Miss
            }
            reply => reply,
        };
        match (self, reply) {
            (Finish::Value { key, .. } | Finish::Item { key }, Reply::Value(value)) => {
                values.decode(py, key, seen(&value))
            }
            (Finish::ValueCas { key, .. }, Reply::Value(value)) => value_cas(py, values, key, seen(&value)),
            (Finish::Lease { key }, Reply::Value(value)) => lease(py, values, key, &value),
            (Finish::Found, Reply::Value(_)) => Ok(truth(py, true)),
            (_, Reply::Miss) if self.reads() => self.missed(py),
            (Finish::Number, Reply::Number(number)) => Ok(number.into_pyobject(py)?.into_any().unbind()),
            (Finish::Number, Reply::NotFound | Reply::Miss | Reply::Alive) => Ok(py.None()),
            (Finish::Stored, Reply::NotFound) => Ok(py.None()),
            (Finish::Version, Reply::Version(version)) => Ok(PyBytes::new(py, &version).into_any().unbind()),
            (Finish::Done | Finish::Stored, reply) => match is_done(&reply) {
                Some(done) => Ok(truth(py, done)),
                None => Err(failure::unfit(&reply)),
            },
            (Finish::True, _) => Ok(truth(py, true)),
            (_, reply) => Err(failure::unfit(&reply)),
        }
    }

    /// What is returned where nothing was found, or where an error is to look like that.
    fn missed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Finish::Value { default, .. } => default.clone_ref(py),
            Finish::ValueCas {
                default, cas_default, ..
            } => pair(py, default.clone_ref(py), cas_default.clone_ref(py))?,
            Finish::Item { key } => return Err(PyKeyError::new_err((key.clone_ref(py),))),
            // Nobody else will: the one who asked computes, and has nothing to store it with.
            Finish::Lease { .. } => {
                let (none, no, won) = (py.None(), truth(py, false), truth(py, true));
                let parts = [
                    no.clone_ref(py),
                    none.clone_ref(py),
                    none,
                    won,
                    no.clone_ref(py),
                    no,
                ];
                PyTuple::new(py, parts)?.into_any().unbind()
            }
            Finish::Found | Finish::Done | Finish::Stored | Finish::Number => truth(py, false),
            Finish::Version | Finish::Values { .. } | Finish::NotStored { .. } | Finish::True => py.None(),
        })
    }

    fn many(
        &self,
        py: Python<'_>,
        values: &Values,
        raises: bool,
        replies: Vec<Result<Reply, Error>>,
    ) -> PyResult<Py<PyAny>> {
        let mut failures = Failures {
            first: None,
            keys: PyList::empty(py),
        };
        let result = match self {
            Finish::Values { keys, with_cas } => {
                let found = PyDict::new(py);
                for (key, reply) in keys.bind(py).iter_borrowed().zip(replies) {
                    let key = key.as_unbound();
                    let object = match reply {
                        Ok(Reply::Miss) => continue,
                        Ok(Reply::Value(value)) if value.is_withheld() => continue,
                        Ok(Reply::Value(value)) if *with_cas => value_cas(py, values, key, seen(&value)),
                        Ok(Reply::Value(value)) => values.decode(py, key, seen(&value)),
                        Ok(reply) => Err(failure::unfit(&reply)),
                        Err(error) => Err(failure::of_request(&error)),
                    };
                    match object {
                        Ok(object) => found.set_item(key, object)?,
                        Err(error) => failures.add(key, error)?,
                    }
                }
                found.into_any()
            }
            Finish::NotStored { keys } => {
                let failed = PyList::empty(py);
                for (key, reply) in keys.iter().zip(replies) {
                    match reply.map(|reply| is_done(&reply)) {
                        Ok(Some(true)) => continue,
                        Ok(_) => {}
                        Err(error) => failures.add(key, failure::of_request(&error))?,
                    }
                    failed.append(key)?;
                }
                failed.into_any()
            }
            _ => {
                let error = replies.into_iter().find_map(Result::err);
                failures.first = error.map(|error| failure::of_request(&error));
                PyBool::new(py, true).to_owned().into_any()
            }
        };
        failures.end(py, raises, result)
    }

    /// As `many` does with replies to look-ups.
    fn found(&self, py: Python<'_>, values: &Values, raises: bool, found: &Found) -> PyResult<Py<PyAny>> {
        let Finish::Values { keys, with_cas } = self else {
            return self.missed(py);
        };
        let mut failures = Failures {
            first: None,
            keys: PyList::empty(py),
        };
        let dict = PyDict::new(py);
        let keys = keys.bind(py);
        found.try_each(|at, seen| {
            let key = keys.get_borrowed_item(at)?;
            let key = key.as_unbound();
            let object = match seen {
                Ok(None) => return Ok(()),
                Ok(Some(seen)) if *with_cas => value_cas(py, values, key, seen),
                Ok(Some(seen)) => values.decode(py, key, seen),
                Err(error) => Err(failure::of_request(error)),
            };
            match object {
                Ok(object) => dict.set_item(key, object),
                Err(error) => failures.add(key, error),
            }
        })?;
        failures.end(py, raises, dict.into_any())
    }
}

fn seen(value: &Value) -> Seen<'_> {
    Seen {
        bytes: &value.bytes,
        flags: value.flags,
        cas: value.cas,
    }
}

/// Keys without an answer, and why the first of them has none.
struct Failures<'py> {
    first: Option<PyErr>,
    keys: Bound<'py, PyList>,
}

impl Failures<'_> {
    fn add(&mut self, key: &Py<PyAny>, error: PyErr) -> PyResult<()> {
        self.first.get_or_insert(error);
        self.keys.append(key)
    }

    /// What is returned or raised in the end.
    fn end(self, py: Python<'_>, raises: bool, result: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match self.first {
            // Everything that did come goes along: nobody has to ask for it again.
            Some(error) if raises => {
                error.value(py).setattr("partial", result)?;
                error.value(py).setattr("failed", self.keys)?;
                Err(error)
            }
            _ => Ok(result.unbind()),
        }
    }
}

fn is_done(reply: &Reply) -> Option<bool> {
    match reply {
        Reply::Stored | Reply::Alive | Reply::Deleted | Reply::Touched | Reply::Flushed => Some(true),
        Reply::NotStored | Reply::Exists | Reply::NotFound | Reply::Miss => Some(false),
        _ => None,
    }
}

fn truth(py: Python<'_>, is_true: bool) -> Py<PyAny> {
    PyBool::new(py, is_true).to_owned().into_any().unbind()
}

fn pair(py: Python<'_>, first: Py<PyAny>, second: Py<PyAny>) -> PyResult<Py<PyAny>> {
    Ok(PyTuple::new(py, [first, second])?.into_any().unbind())
}

fn value_cas(py: Python<'_>, values: &Values, key: &Py<PyAny>, value: Seen<'_>) -> PyResult<Py<PyAny>> {
    let object = values.decode(py, key, value)?;
    // As bytes, as pymemcache has it.
    let cas = value.cas.unwrap_or_default().to_string();
    pair(py, object, PyBytes::new(py, cas.as_bytes()).into_any().unbind())
}

fn lease(py: Python<'_>, values: &Values, key: &Py<PyAny>, value: &Value) -> PyResult<Py<PyAny>> {
    // What a lease makes on a miss: the one that won fills it, the others find nothing.
    let is_empty = value.is_placeholder();
    let object = if is_empty {
        py.None()
    } else {
        values.decode(py, key, seen(value))?
    };
    let cas = value.cas.into_pyobject(py)?.into_any().unbind();
    let lease = [value.lease.won, value.lease.taken, value.lease.stale];
    let [won, taken, stale] = lease.map(|is_true| truth(py, is_true));
    let found = truth(py, !is_empty);
    Ok(PyTuple::new(py, [found, object, cas, won, taken, stale])?
        .into_any()
        .unbind())
}
