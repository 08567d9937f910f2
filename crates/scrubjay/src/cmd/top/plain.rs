//! One reading of all servers as text: a table with a row a server, or JSON.

use std::sync::mpsc::Receiver;

use serde_json::{Map, Value, json};

use super::columns::{self, COLUMNS, Row};
use super::fleet::{Fleet, Reading, State};

/// Takes in two answers of each server, so that there are rates; or why there is none.
pub(super) fn fill(fleet: &mut Fleet, readings: &Receiver<Reading>) {
    let mut missing = vec![2; fleet.servers.len()];
    while missing.iter().any(|&count| count > 0) {
        let Ok(reading) = readings.recv() else { return };
        let missing = &mut missing[reading.server];
        if *missing > 0 {
            *missing = if reading.outcome.is_ok() { *missing - 1 } else { 0 };
            fleet.take(reading);
        }
    }
}

/// A row for each server in the order in which they were named, and one for all together.
pub(super) fn table(fleet: &Fleet) -> String {
    let (up, _) = fleet.up_and_down();
    let sum_name = format!("{up} of {} servers", fleet.servers.len());
    let names = fleet.servers.iter().map(|server| server.name.chars().count());
    let width = names.chain([sum_name.len()]).max().unwrap_or(0);
    let mut text = columns::left("SERVER", width);
    for column in &COLUMNS {
        text.push_str(&format!("  {}", columns::right(column.title, column.width)));
    }
    text.push('\n');
    let cells = |row: &Row<'_>| -> String {
        let cell = |column: &columns::Column| format!("  {:>1$}", column.cell(row).text(), column.width);
        COLUMNS.iter().map(cell).collect()
    };
    for server in &fleet.servers {
        let rest = match (&server.state, Row::of_server(server)) {
            (_, Some(row)) => cells(&row),
            (State::Down(why), _) => format!("  DOWN: {why}"),
            _ => "  no answer".to_owned(),
        };
        text.push_str(&format!("{:width$}{rest}\n", server.name));
    }
    let sum = fleet.sum();
    text.push_str(&format!("{sum_name:width$}{}\n", cells(&Row::of_all(&sum))));
    text
}

/// An object with `servers` and `total`.
pub(super) fn json(fleet: &Fleet, interval_secs: f64) -> Value {
    let server = |server: &super::fleet::Server| {
        let mut object = Row::of_server(server).map_or_else(Map::new, |row| columns::json(&row));
        object.insert("server".to_owned(), json!(server.name));
        let state = match &server.state {
            State::Up => "up",
            State::Waiting => "waiting",
            State::Down(why) => {
                object.insert("error".to_owned(), json!(why));
                "down"
            }
        };
        object.insert("state".to_owned(), json!(state));
        Value::Object(object)
    };
    let (up, down) = fleet.up_and_down();
    let sum = fleet.sum();
    let mut total = columns::json(&Row::of_all(&sum));
    for (name, count) in [("servers", fleet.servers.len()), ("up", up), ("down", down)] {
        total.insert(name.to_owned(), json!(count));
    }
    json!({
        "interval_secs": interval_secs,
        "servers": fleet.servers.iter().map(server).collect::<Vec<_>>(),
        "total": total,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::{fill, json, table};
    use crate::cmd::top::fleet::Fleet;
    use crate::cmd::top::fleet::tests::{reading, stats};

    fn fleet() -> Fleet {
        let mut fleet = Fleet::new(&["a:1".to_owned(), "b:1".to_owned(), "c:1".to_owned()]);
        let (sender, receiver) = channel();
        for secs in 1..3 {
            // The last one's third reading comes too late to be of this table.
            for reading in [
                reading(0, secs, Ok(stats(secs, 100))),
                reading(2, secs, Ok(stats(secs, 50))),
            ] {
                sender.send(reading).expect("somebody listens");
            }
        }
        sender
            .send(reading(2, 3, Ok(stats(3, 1))))
            .expect("somebody listens");
        sender
            .send(reading(1, 3, Err("gone away")))
            .expect("somebody listens");
        sender
            .send(reading(0, 4, Err("later")))
            .expect("somebody listens");
        fill(&mut fleet, &receiver);
        fleet
    }

    #[test]
    fn a_table_has_a_row_a_server_and_their_sum() {
        let text = table(&fleet());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].starts_with("SERVER           REQ/S   HIT%"), "{text}");
        assert!(lines[1].starts_with("a:1                101   90.0"), "{text}");
        assert_eq!(lines[2], "b:1             DOWN: gone away", "{text}");
        assert!(lines[4].starts_with("2 of 3 servers     152   90.0"), "{text}");
        assert!(lines.iter().all(|line| !line.contains('\t')), "{text}");
    }

    #[test]
    fn json_has_numbers_and_reasons() {
        let json = json(&fleet(), 1.0);
        assert_eq!(json["total"]["requests_per_sec"], 152);
        assert_eq!(json["total"]["hit_ratio"], 0.9);
        assert_eq!(json["total"]["down"], 1);
        assert_eq!(json["total"]["since_start"]["gets"], 300);
        assert_eq!(json["servers"][0]["state"], "up");
        assert_eq!(json["servers"][0]["version"], "scrubjay 0.1.0");
        assert_eq!(json["servers"][1]["error"], "gone away");
        assert_eq!(json["servers"][1].get("bytes"), None);
    }
}
