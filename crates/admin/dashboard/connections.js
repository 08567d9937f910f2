// Who is connected: the lines of `stats conns`, while somebody looks at them.

import { ask, byId, fill, say, spanOf } from "./page.js";

const PERIOD = 2;
const STATES = {
  conn_listening: "listens", conn_new_cmd: "new", conn_read: "waits for a request", conn_nread: "a request is arriving",
  conn_parse_cmd: "is answered", conn_mwrite: "takes its replies", conn_closing: "is closing",
  conn_held_back: "waits: too many requests",
};

let turns = 0;
let isListed = false;

export async function poll() {
  turns += 1;
  if (!byId("connections-list").open || isListed && turns % PERIOD) return;
  const reply = await ask("connections.json");
  if (!reply.ok) return say(byId("connections-note"), (await reply.text()).trim());
  const { connections, is_complete: isComplete } = await reply.json();
  isListed = connections !== null;
  if (!isListed) return;
  say(byId("connections-note"), isComplete ? "" : `The first ${connections.length}; stats conns tells all.`);
  fill("connections-table", connections.map(({ descriptor, UDP, addr, listen_addr: at, state, secs_since_last_cmd: idle, last_cmd: last }) => [
    { content: addr ?? "", value: descriptor, of: `connection:${descriptor}` }, spanOf(idle), STATES[state] ?? state, at ?? (UDP ? "UDP" : ""), last ?? "",
  ]));
}
