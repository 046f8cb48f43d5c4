/**
 * Run by `backlog_test.ts`: many clients at once, of which it prints how many got through to `HOST PORT`.
 *
 * @module
 */

import { connect } from "node:net";
import process from "node:process";

const [host = "", port = "", count = ""] = process.argv.slice(2);
let connected = 0;
let failed = 0;
const done = () => {
  console.log(connected);
  process.exit(0);
};
for (let client = 0; client < Number(count); client++) {
  const settled = () => {
    if (connected + failed === Number(count)) done();
  };
  const socket = connect({ host, port: Number(port) }, () => {
    connected++;
    settled();
  });
  socket.on("error", () => {
    failed++;
    settled();
  });
}
// A dial that finds no room is retried by the kernel and finds none then: nothing is accepted while
// this runs.
setTimeout(done, 10_000);
