//! The client of the package: pymemcache's methods, each one request of `scrubjay-client`.
//!
//! One class serves both kinds of callers. Without an event loop a method waits, with the interpreter released, and returns the
//! result; with one it returns a future of that loop at once.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::types::{PyAnyMethods, PyDict, PyDictMethods, PyList, PyListMethods, PyTuple, PyTupleMethods};
use pyo3::{Borrowed, Bound, FromPyObject, Py, PyAny, PyResult, Python, intern, pyclass, pymethods};
use scrubjay_client::config::{Config, parse_server};
use scrubjay_client::near::Front;
use scrubjay_client::protocol::{Arith, Delete, Get, Request, Store, StoreMode, Touch};
use scrubjay_client::{Call, Route};

use crate::admin::{self, Keys};
use crate::arguments::{self, Seconds, cas_number, delta};
use crate::completions::{Completion, Completions};
use crate::failure;
use crate::finish::{Finish, Outcome, Raised};
use crate::keys::{Key, KeyRules};
use crate::values::{Choices, Encoding, Typed, Values};

/// Servers as one cache.
#[pyclass(subclass, frozen, weakref, module = "scrubjay._core")]
#[derive(Debug)]
pub(crate) struct Core {
    /// Set by [`Core::open`], once: a class that is made from this one's may have an `__init__` of its own, with other arguments.
    shared: OnceLock<Arc<Shared>>,
    completions: Option<Completions>,
}

/// What a core has in common with those that were [bound](Core::bound) from it.
#[derive(Debug)]
pub(crate) struct Shared {
    config: Config,
    /// Taken away when connections are to be dropped. Held only while the interpreter is, so that no fork leaves it locked.
    front: Mutex<Option<Front>>,
    servers: usize,
    keys: KeyRules,
    values: Values,
    raised: Raised,
    /// Whether stores wait for their reply if a call does not say.
    quiet: bool,
}

/// A core that was opened, by which its methods do their work.
#[derive(Clone, Copy)]
struct Opened<'a> {
    shared: &'a Arc<Shared>,
    completions: Option<&'a Completions>,
}

impl Deref for Opened<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}

/// What a client is made from.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    servers: Vec<String>,
    options: Vec<(String, String)>,
    key_prefix: Vec<u8>,
    allow_unicode_keys: bool,
    encoding: String,
    serde: Option<(Py<PyAny>, Py<PyAny>)>,
    typed: Option<Choices>,
    pickle: Option<(Py<PyAny>, Py<PyAny>)>,
    default_noreply: bool,
    /// `all`, `changes` or `nothing`.
    raised: String,
}

/// What a store is told besides key and value.
struct Storing<'a, 'py> {
    mode: StoreMode,
    cas: Option<u64>,
    exptime: i64,
    quiet: bool,
    flags: Option<&'a Bound<'py, PyAny>>,
}

impl Opened<'_> {
    fn front(&self, py: Python<'_>) -> PyResult<Front> {
        let there = || self.front.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(front) = &*there() {
            return Ok(front.clone());
        }
        let new = made(py, &self.config)?;
        // Others may have been quicker.
        Ok(there().get_or_insert(new).clone())
    }

    /// The prefix has no say in the placement.
    fn route<'a>(&self, key: &Key<'a>) -> Route<'a> {
        if self.keys.prefix.is_empty() || self.servers == 1 {
            Route::Key
        } else {
            Route::As(key.bare)
        }
    }

    fn ask(
        &self,
        py: Python<'_>,
        request: Request<'_>,
        route: Route<'_>,
        finish: Finish,
    ) -> PyResult<Py<PyAny>> {
        let front = self.front(py)?;
        let call = Call { route, timeout: None };
        let Some(completions) = self.completions else {
            let reply = py.detach(|| front.call(request, call));
            return finish.run(py, &self.values, self.raised, Outcome::One(reply));
        };
        let future = completions.future(py)?;
        let waiting = future.clone_ref(py);
        let queue = completions.queue();
        front.start(request, call, move |reply| {
            queue.push(Completion {
                future: waiting,
                finish,
                outcome: Outcome::One(reply),
            });
        });
        Ok(future)
    }

    fn ask_all(
        &self,
        py: Python<'_>,
        asks: Vec<(Request<'_>, Route<'_>)>,
        finish: Finish,
    ) -> PyResult<Py<PyAny>> {
        let front = self.front(py)?;
        let Some(completions) = self.completions else {
            let replies = py.detach(|| front.call_each(asks, None));
            return finish.run(py, &self.values, self.raised, Outcome::Many(replies));
        };
        let future = completions.future(py)?;
        let waiting = future.clone_ref(py);
        let queue = completions.queue();
        front.start_each(asks, None, move |replies| {
            queue.push(Completion {
                future: waiting,
                finish,
                outcome: Outcome::Many(replies),
            });
        });
        Ok(future)
    }

    /// The key for those who are called with it.
    fn name(&self, key: &Bound<'_, PyAny>) -> Py<PyAny> {
        if self.values.wants_key() {
            key.clone().unbind()
        } else {
            key.py().None()
        }
    }

    fn look_up(&self, key: &Bound<'_, PyAny>, get: Get<'_>, finish: Finish) -> PyResult<Py<PyAny>> {
        let read = self.keys.read(key)?;
        let get = Get {
            key: &read.wire,
            ..get
        };
        self.ask(key.py(), Request::Get(get), self.route(&read), finish)
    }

    fn look_up_many(&self, keys: &Bound<'_, PyAny>, with_cas: bool) -> PyResult<Py<PyAny>> {
        // As a tuple they stay the same, and all are held by one reference. A list is not asked for its length by way of Python.
        let keys = match keys.cast_exact::<PyList>() {
            Ok(list) => list.to_tuple(),
            Err(_) => PyTuple::new(keys.py(), keys.try_iter()?.collect::<PyResult<Vec<_>>>()?)?,
        };
        let objects: Vec<_> = keys.iter_borrowed().collect();
        let by_key = self.keys.prefix.is_empty() || self.servers == 1;
        if by_key
            && self.completions.is_none()
            && let Front::Plain(client) = self.front(keys.py())?
        {
            let look_up =
                |wire: &[&[u8]]| (keys.py()).detach(|| client.look_up(wire, with_cas, Call::default()));
            let found = match self.keys.prefix.is_empty() {
                true => look_up(&self.bare_all(&objects)?),
                false => {
                    let read = self.read_all(objects.iter().map(Deref::deref))?;
                    look_up(&read.iter().map(|key| &*key.wire).collect::<Vec<_>>())
                }
            };
            let py = keys.py();
            let keys = keys.unbind();
            let finish = Finish::Values { keys, with_cas };
            return finish.run(py, &self.values, self.raised, Outcome::Found(found));
        }
        let read = self.read_all(objects.iter().map(Deref::deref))?;
        let asks = read.iter().map(|key| {
            let get = Get {
                with_cas,
                ..Get::new(&key.wire)
            };
            (Request::Get(get), self.route(key))
        });
        let asks = asks.collect();
        let finish = Finish::Values {
            keys: keys.clone().unbind(),
            with_cas,
        };
        self.ask_all(keys.py(), asks, finish)
    }

    /// Keys where there is no prefix.
    fn bare_all<'a>(&self, objects: &'a [Borrowed<'_, '_, PyAny>]) -> PyResult<Vec<&'a [u8]>> {
        let mut bare = Vec::with_capacity(objects.len());
        for key in objects {
            bare.push(self.keys.bare(key)?);
        }
        Ok(bare)
    }

    fn read_all<'a, 'py: 'a>(
        &self,
        objects: impl ExactSizeIterator<Item = &'a Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Key<'a>>> {
        let mut read = Vec::with_capacity(objects.len());
        for key in objects {
            read.push(self.keys.read(key)?);
        }
        Ok(read)
    }

    fn store(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        how: &Storing<'_, '_>,
    ) -> PyResult<Py<PyAny>> {
        let read = self.keys.read(key)?;
        let encoded = self.values.encode(key, value)?;
        let store = Store {
            key: &read.wire,
            value: encoded.bytes,
            mode: how.mode,
            flags: arguments::flags(how.flags, encoded.flags)?,
            exptime: how.exptime,
            cas: how.cas,
            invalidate: false,
            quiet: how.quiet,
        };
        self.ask(key.py(), Request::Store(store), self.route(&read), Finish::Stored)
    }

    fn count(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        decrement: bool,
        quiet: bool,
        initial: Option<(u64, i64)>,
    ) -> PyResult<Py<PyAny>> {
        let read = self.keys.read(key)?;
        let arith = Arith {
            key: &read.wire,
            delta: delta(value)?,
            decrement,
            initial,
            quiet,
        };
        self.ask(key.py(), Request::Arith(arith), self.route(&read), Finish::Number)
    }

    fn quiet(&self, noreply: Option<bool>) -> bool {
        noreply.unwrap_or(self.quiet)
    }
}

#[pymethods]
impl Core {
    /// One that is to be opened, whatever a subclass is made from.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Core {
        Core {
            shared: OnceLock::new(),
            completions: None,
        }
    }

    /// Makes it a client of these servers; once.
    #[pyo3(name = "_open")]
    fn open(&self, py: Python<'_>, settings: Settings) -> PyResult<()> {
        let servers = settings.servers.iter().map(|text| parse_server(text));
        let servers = servers
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failure::of_config(&error))?;
        let mut config = Config::new(servers);
        for (name, text) in &settings.options {
            config
                .set(name, text)
                .map_err(|error| failure::of_config(&error))?;
        }
        let front = made(py, &config)?;
        let encoding = Encoding::new(settings.encoding);
        let values = match (settings.typed, settings.serde) {
            (Some(typed), _) => Values::Typed(Box::new(Typed::new(typed, settings.pickle)?)),
            (None, Some((serialize, deserialize))) => Values::Serde {
                serialize,
                deserialize,
                encoding,
            },
            (None, None) => Values::Plain(encoding),
        };
        let shared = Shared {
            servers: front.client().servers().count(),
            front: Mutex::new(Some(front)),
            config,
            keys: KeyRules {
                prefix: settings.key_prefix,
                unicode: settings.allow_unicode_keys,
            },
            values,
            raised: match settings.raised.as_str() {
                "all" => Raised::All,
                "changes" => Raised::OfChanges,
                _ => Raised::Nothing,
            },
            quiet: settings.default_noreply,
        };
        self.shared
            .set(Arc::new(shared))
            .map_err(|_| PyValueError::new_err("the client was made already: __init__ may be called once"))
    }

    /// The same for an event loop whose `create_future` this is, or for those who wait: connections and copies are shared.
    #[pyo3(signature = (create_future=None))]
    fn bound(&self, create_future: Option<Py<PyAny>>) -> PyResult<Core> {
        Ok(Core {
            shared: OnceLock::from(Arc::clone(self.opened()?.shared)),
            completions: create_future.map(Completions::new).transpose()?,
        })
    }

    #[pyo3(signature = (key, default=None))]
    fn get(&self, key: &Bound<'_, PyAny>, default: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let finish = Finish::Value {
            key: core.name(key),
            default: or_none(key.py(), default),
        };
        core.look_up(key, Get::new(b""), finish)
    }

    #[pyo3(signature = (key, default=None, cas_default=None))]
    fn gets(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
        cas_default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let get = Get {
            with_cas: true,
            ..Get::new(b"")
        };
        core.look_up(key, get, core.value_cas(key, default, cas_default))
    }

    #[pyo3(signature = (key, expire=Seconds(0), default=None))]
    fn gat(
        &self,
        key: &Bound<'_, PyAny>,
        expire: Seconds,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let get = Get {
            touch: Some(expire.0),
            ..Get::new(b"")
        };
        let finish = Finish::Value {
            key: core.name(key),
            default: or_none(key.py(), default),
        };
        core.look_up(key, get, finish)
    }

    #[pyo3(signature = (key, expire=Seconds(0), default=None, cas_default=None))]
    fn gats(
        &self,
        key: &Bound<'_, PyAny>,
        expire: Seconds,
        default: Option<Py<PyAny>>,
        cas_default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let get = Get {
            with_cas: true,
            touch: Some(expire.0),
            ..Get::new(b"")
        };
        core.look_up(key, get, core.value_cas(key, default, cas_default))
    }

    fn get_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.opened()?.look_up_many(keys, false)
    }

    fn gets_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.opened()?.look_up_many(keys, true)
    }

    #[pyo3(signature = (key, lease_secs, refresh_below=None))]
    fn lease(
        &self,
        key: &Bound<'_, PyAny>,
        lease_secs: i64,
        refresh_below: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let get = Get {
            with_cas: true,
            vivify: Some(lease_secs),
            recache_below: refresh_below,
            ..Get::new(b"")
        };
        core.look_up(key, get, Finish::Lease { key: core.name(key) })
    }

    #[pyo3(signature = (key, value, expire=Seconds(0), noreply=None, flags=None))]
    fn set(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.opened()?
            .store_by(StoreMode::Set, key, value, expire, noreply, flags)
    }

    #[pyo3(signature = (key, value, expire=Seconds(0), noreply=None, flags=None))]
    fn add(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.opened()?
            .store_by(StoreMode::Add, key, value, expire, noreply, flags)
    }

    #[pyo3(signature = (key, value, expire=Seconds(0), noreply=None, flags=None))]
    fn replace(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.opened()?
            .store_by(StoreMode::Replace, key, value, expire, noreply, flags)
    }

    #[pyo3(signature = (key, value, expire=Seconds(0), noreply=None, flags=None))]
    fn append(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.opened()?
            .store_by(StoreMode::Append, key, value, expire, noreply, flags)
    }

    #[pyo3(signature = (key, value, expire=Seconds(0), noreply=None, flags=None))]
    fn prepend(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.opened()?
            .store_by(StoreMode::Prepend, key, value, expire, noreply, flags)
    }

    #[pyo3(signature = (key, value, cas, expire=Seconds(0), noreply=false, flags=None))]
    fn cas(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        cas: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let how = Storing {
            mode: StoreMode::Set,
            cas: Some(cas_number(cas)?),
            exptime: expire.0,
            quiet: noreply == Some(true),
            flags,
        };
        self.opened()?.store(key, value, &how)
    }

    #[pyo3(signature = (values, expire=Seconds(0), noreply=None, flags=None))]
    fn set_many(
        &self,
        values: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let quiet = core.quiet(noreply);
        let dict = match values.cast::<PyDict>() {
            Ok(dict) => dict.clone(),
            // Some other mapping.
            Err(_) => values.py().get_type::<PyDict>().call1((values,))?.cast_into()?,
        };
        let (objects, contents): (Vec<_>, Vec<_>) = dict.iter().unzip();
        let read = core.read_all(objects.iter())?;
        let mut asks = Vec::with_capacity(read.len());
        for ((object, key), value) in objects.iter().zip(&read).zip(&contents) {
            let encoded = core.values.encode(object, value)?;
            let store = Store {
                flags: arguments::flags(flags, encoded.flags)?,
                exptime: expire.0,
                quiet,
                ..Store::new(&key.wire, encoded.bytes)
            };
            asks.push((Request::Store(store), core.route(key)));
        }
        let finish = Finish::NotStored {
            keys: owned(&objects),
        };
        core.ask_all(values.py(), asks, finish)
    }

    #[pyo3(signature = (key, noreply=None, cas=None))]
    fn delete(
        &self,
        key: &Bound<'_, PyAny>,
        noreply: Option<bool>,
        cas: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let read = core.keys.read(key)?;
        let delete = Delete {
            quiet: core.quiet(noreply),
            cas: cas.map(cas_number).transpose()?,
            ..Delete::new(&read.wire)
        };
        core.ask(key.py(), Request::Delete(delete), core.route(&read), Finish::Done)
    }

    #[pyo3(signature = (key, keep=Seconds(30)))]
    fn invalidate(&self, key: &Bound<'_, PyAny>, keep: Seconds) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let read = core.keys.read(key)?;
        let delete = Delete {
            invalidate: Some(keep.0),
            ..Delete::new(&read.wire)
        };
        core.ask(key.py(), Request::Delete(delete), core.route(&read), Finish::Done)
    }

    #[pyo3(signature = (keys, noreply=None))]
    fn delete_many(&self, keys: &Bound<'_, PyAny>, noreply: Option<bool>) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let quiet = core.quiet(noreply);
        let objects = keys.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let read = core.read_all(objects.iter())?;
        let asks = read.iter().map(|key| {
            let delete = Delete {
                quiet,
                ..Delete::new(&key.wire)
            };
            (Request::Delete(delete), core.route(key))
        });
        core.ask_all(keys.py(), asks.collect(), Finish::True)
    }

    #[pyo3(signature = (key, value, noreply=false, initial=None, expire=Seconds(0)))]
    fn incr(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        noreply: Option<bool>,
        initial: Option<u64>,
        expire: Seconds,
    ) -> PyResult<Py<PyAny>> {
        let initial = initial.map(|initial| (initial, expire.0));
        self.opened()?
            .count(key, value, false, noreply == Some(true), initial)
    }

    #[pyo3(signature = (key, value, noreply=false, initial=None, expire=Seconds(0)))]
    fn decr(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        noreply: Option<bool>,
        initial: Option<u64>,
        expire: Seconds,
    ) -> PyResult<Py<PyAny>> {
        let initial = initial.map(|initial| (initial, expire.0));
        self.opened()?
            .count(key, value, true, noreply == Some(true), initial)
    }

    #[pyo3(signature = (key, expire=Seconds(0), noreply=None))]
    fn touch(&self, key: &Bound<'_, PyAny>, expire: Seconds, noreply: Option<bool>) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let read = core.keys.read(key)?;
        let touch = Touch {
            key: &read.wire,
            exptime: expire.0,
            quiet: core.quiet(noreply),
        };
        core.ask(key.py(), Request::Touch(touch), core.route(&read), Finish::Done)
    }

    fn version(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.opened()?
            .ask(py, Request::Version, Route::Key, Finish::Version)
    }

    /// All servers are waited for, whatever `noreply` says: it is there for those who pass it.
    #[pyo3(signature = (delay=Seconds(0), noreply=None))]
    fn flush_all(&self, py: Python<'_>, delay: Seconds, noreply: Option<bool>) -> PyResult<Py<PyAny>> {
        let core = self.opened()?;
        let _ = noreply;
        let delay_secs = u32::try_from(delay.0)
            .map_err(|_| failure::refused(format!("delay: {} is no time to wait", delay.0)))?;
        let front = core.front(py)?;
        let servers = front.client().servers();
        let asks = servers.map(|server| (Request::Flush { delay_secs }, Route::Server(server)));
        core.ask_all(py, asks.collect(), Finish::True)
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let finish = Finish::Item {
            key: key.clone().unbind(),
        };
        self.opened()?.look_up(key, Get::new(b""), finish)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.opened()?
            .look_up(key, Get::new(b""), Finish::Found)?
            .extract(key.py())
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.opened()?
            .store_by(StoreMode::Set, key, value, Seconds(0), Some(true), None)
            .map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(key, Some(true), None).map(drop)
    }

    /// The server of a key, counted from 0.
    fn place(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        let core = self.opened()?;
        let read = core.keys.read(key)?;
        Ok(core
            .front(key.py())?
            .client()
            .place(match core.route(&read) {
                Route::As(key) => key,
                _ => &read.wire,
            })
            .get())
    }

    /// Drops all connections and copies; new ones are made when they are needed.
    fn close(&self, py: Python<'_>) {
        let front = self.shared.get().map(|shared| &shared.front);
        let old = front.and_then(|front| front.lock().unwrap_or_else(PoisonError::into_inner).take());
        // What is being asked still gets its replies; then its connections end.
        py.detach(|| drop(old));
    }

    /// What the near cache has done since it was made; `None` where there is none.
    fn near_cache_counts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let front = self.opened()?.front(py)?;
        front.near().map(|near| admin::counts(py, near)).transpose()
    }

    /// What the server of this number answers to any command, up to what ends it.
    fn command(
        &self,
        py: Python<'_>,
        server: usize,
        timeout_ms: u64,
        command: Vec<u8>,
        ends: Vec<Vec<u8>>,
        inside: bool,
    ) -> PyResult<Py<PyAny>> {
        let ends = admin::Ends { ends, inside };
        admin::command(py, &self.opened()?.config, (server, timeout_ms), &command, &ends)
    }

    fn server_count(&self) -> PyResult<usize> {
        Ok(self.opened()?.servers)
    }

    /// The keys of the server of this number.
    fn keys_of(&self, py: Python<'_>, server: usize, timeout_ms: u64) -> PyResult<Keys> {
        Keys::new(py, &self.opened()?.config, (server, timeout_ms))
    }

    /// What an event loop is to watch.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.completions()?.fd())
    }

    /// How many replies have not been delivered yet.
    fn waiting(&self) -> PyResult<usize> {
        Ok(self.completions()?.waiting())
    }

    /// Gives what has come to those who await it.
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.opened()?;
        for completion in self.completions()?.take() {
            let future = completion.future.bind(py);
            // Who was cancelled wants nothing.
            if future.call_method0(intern!(py, "done"))?.extract()? {
                continue;
            }
            match completion
                .finish
                .run(py, &core.values, core.raised, completion.outcome)
            {
                Ok(result) => future.call_method1(intern!(py, "set_result"), (result,))?,
                Err(error) => future.call_method1(intern!(py, "set_exception"), (error,))?,
            };
        }
        Ok(())
    }
}

impl Core {
    /// What all calls but [`Core::open`] need; an error if that was not called.
    fn opened(&self) -> PyResult<Opened<'_>> {
        let unmade = || {
            PyRuntimeError::new_err("the client was not made: call super().__init__() with its servers first")
        };
        Ok(Opened {
            shared: self.shared.get().ok_or_else(unmade)?,
            completions: self.completions.as_ref(),
        })
    }

    fn completions(&self) -> PyResult<&Completions> {
        let completions = self.completions.as_ref();
        completions.ok_or_else(|| PyRuntimeError::new_err("this client belongs to no event loop"))
    }
}

impl Opened<'_> {
    fn store_by(
        &self,
        mode: StoreMode,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Seconds,
        noreply: Option<bool>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let how = Storing {
            mode,
            cas: None,
            exptime: expire.0,
            quiet: self.quiet(noreply),
            flags,
        };
        self.store(key, value, &how)
    }

    fn value_cas(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
        cas_default: Option<Py<PyAny>>,
    ) -> Finish {
        Finish::ValueCas {
            key: self.name(key),
            default: or_none(key.py(), default),
            cas_default: or_none(key.py(), cas_default),
        }
    }
}

/// A client by its options, which may take as long as servers take to answer.
fn made(py: Python<'_>, config: &Config) -> PyResult<Front> {
    let front = py.detach(|| Front::new(config.clone()));
    front.map_err(|error| failure::of_config(&error))
}

fn or_none(py: Python<'_>, object: Option<Py<PyAny>>) -> Py<PyAny> {
    object.unwrap_or_else(|| py.None())
}

fn owned(objects: &[Bound<'_, PyAny>]) -> Vec<Py<PyAny>> {
    objects.iter().map(|object| object.clone().unbind()).collect()
}
