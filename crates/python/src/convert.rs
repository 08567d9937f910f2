//! Objects of Python to values of the formats, and back.

use pyo3::exceptions::PyTypeError;
use pyo3::types::{
    PyAnyMethods, PyBool, PyBoolMethods, PyByteArray, PyBytes, PyBytesMethods, PyDict, PyDictMethods,
    PyFloat, PyFloatMethods, PyInt, PyList, PyListMethods, PyMemoryView, PyString, PyStringMethods, PyTuple,
    PyTupleMethods, PyTypeMethods,
};
use pyo3::{Bound, IntoPyObject, Py, PyAny, PyErr, PyResult, Python};
use scrubjay_client::value::{Body, Key, Limits, Value};

/// What is taken for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// What comes back as the same type, and nothing else: the rest is pickled.
    Exact,
    /// Whatever can be told by a value: a tuple becomes a list, an instance of a subclass of `str` a `str`.
    Alike,
}

/// The value that an object is; an error names the type that is none.
pub(crate) fn to_value(object: &Bound<'_, PyAny>, taken: Taken) -> PyResult<Value> {
    convert(object, taken, Limits::DEPTH_MAX)
}

fn convert(object: &Bound<'_, PyAny>, taken: Taken, depth_left: usize) -> PyResult<Value> {
    if depth_left == 0 {
        return Err(PyTypeError::new_err(format!(
            "a value is nested deeper than {} levels; store less at once",
            Limits::DEPTH_MAX
        )));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(bool) = object.cast::<PyBool>() {
        return Ok(Value::Bool(bool.is_true()));
    }
    let exact = taken == Taken::Exact;
    if let Ok(text) = object.cast::<PyString>()
        && !(exact && text.cast_exact::<PyString>().is_err())
    {
        return Ok(Value::Text(text.to_str()?.to_owned()));
    }
    if let Ok(bytes) = object.cast::<PyBytes>()
        && !(exact && bytes.cast_exact::<PyBytes>().is_err())
    {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(int) = object.cast::<PyInt>()
        && !(exact && int.cast_exact::<PyInt>().is_err())
    {
        return Ok(Value::Int(int.extract()?));
    }
    if let Ok(float) = object.cast::<PyFloat>()
        && !(exact && float.cast_exact::<PyFloat>().is_err())
    {
        return Ok(Value::Float(float.value()));
    }
    if let Ok(list) = object.cast::<PyList>()
        && !(exact && list.cast_exact::<PyList>().is_err())
    {
        return elements(list.iter(), taken, depth_left);
    }
    if let Ok(dict) = object.cast::<PyDict>()
        && !(exact && dict.cast_exact::<PyDict>().is_err())
    {
        let mut pairs = Vec::with_capacity(dict.len());
        for (name, value) in dict.iter() {
            pairs.push((key(&name, taken)?, convert(&value, taken, depth_left - 1)?));
        }
        return Ok(Value::Map(pairs));
    }
    if !exact {
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return elements(tuple.iter(), taken, depth_left);
        }
        if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
            let bytes = object.py().get_type::<PyBytes>().call1((object,))?;
            return Ok(Value::Bytes(bytes.extract()?));
        }
    }
    Err(no_value(object))
}

fn elements<'py>(
    objects: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
    taken: Taken,
    depth_left: usize,
) -> PyResult<Value> {
    let mut values = Vec::with_capacity(objects.len());
    for object in objects {
        values.push(convert(&object, taken, depth_left - 1)?);
    }
    Ok(Value::List(values))
}

fn key(name: &Bound<'_, PyAny>, taken: Taken) -> PyResult<Key> {
    // A bool would come back as a number.
    let is_int = name.is_instance_of::<PyInt>() && !name.is_instance_of::<PyBool>();
    if !is_int && !name.is_instance_of::<PyString>() && !name.is_instance_of::<PyBytes>() {
        return Err(no_value(name));
    }
    match convert(name, taken, 1)? {
        Value::Int(int) => Ok(Key::Int(int)),
        Value::Text(text) => Ok(Key::Text(text)),
        Value::Bytes(bytes) => Ok(Key::Bytes(bytes)),
        _ => Err(no_value(name)),
    }
}

fn no_value(object: &Bound<'_, PyAny>) -> PyErr {
    let name = object
        .get_type()
        .fully_qualified_name()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "{name} cannot be stored; make it of str, bytes, int, float, bool, None, list and dict, or pass pickle=True if every \
         writer to the cache is trusted"
    ))
}

/// The object that a value is.
pub(crate) fn to_object(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::Null => py.None(),
        Value::Bool(bool) => PyBool::new(py, *bool).to_owned().into_any().unbind(),
        Value::Int(int) => int.into_pyobject(py)?.into_any().unbind(),
        Value::Float(float) => PyFloat::new(py, *float).into_any().unbind(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any().unbind(),
        Value::Text(text) => PyString::new(py, text).into_any().unbind(),
        Value::List(values) => {
            let objects = values.iter().map(|value| to_object(py, value));
            PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)?
                .into_any()
                .unbind()
        }
        Value::Map(pairs) => to_dict(py, pairs)?,
        Value::Object(object) => match &object.body {
            // Their class is PHP's affair; what they hold is what can be used here.
            Body::Properties(pairs) => to_dict(py, pairs)?,
            Body::Custom(bytes) => PyBytes::new(py, bytes).into_any().unbind(),
            Body::Case(name) => PyString::new(py, name).into_any().unbind(),
        },
    })
}

fn to_dict(py: Python<'_>, pairs: &[(Key, Value)]) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    for (key, value) in pairs {
        let value = to_object(py, value)?;
        match key {
            Key::Int(int) => dict.set_item(int, value)?,
            Key::Text(text) => dict.set_item(text, value)?,
            Key::Bytes(bytes) => dict.set_item(PyBytes::new(py, bytes), value)?,
        }
    }
    Ok(dict.into_any().unbind())
}
