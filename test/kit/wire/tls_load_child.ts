/**
 * Run by `tls_load.ts`: TLS traffic as its argument describes, until standard input ends; prints
 * `started`, then the result.
 *
 * @module
 */

import process from "node:process";
import { TlsTraffic } from "./tls_session.ts";

const { place, ...options } = JSON.parse(process.argv[2] ?? "");
const traffic = new TlsTraffic(place, options);
traffic.started.then(() => process.stdout.write("started\n"));
process.stdin.resume().on("end", async () => {
  process.stdout.write(JSON.stringify(await traffic.stop()), () => process.exit(0));
});
