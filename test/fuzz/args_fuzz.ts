/**
 * The command line: any words give a command whose values are within their bounds, or a refusal that
 * is one line.
 *
 * @module
 */

import assert from "node:assert/strict";
import { type Command, parseCommand } from "../../src/app/command_line/args.ts";
import type { ProxyOptions } from "../../src/app/flags/proxy_options.ts";
import { ENVOY_FLAGS } from "../../src/app/command_line/args_envoy.ts";
import { PROXY_FLAGS } from "../../src/app/flags/proxy_flags.ts";
import { ProxyError } from "../../src/base/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

/** Words are apart by a zero byte, as in `/proc/PID/cmdline`. */
const LINES = [
  "proxy -sidecar-for web -token-file /t -http-addr https://127.0.0.1:8501 -workers 4",
  "proxy --proxy-id=web-proxy -log-level=TRACE -log-json=false -drain-timeout 1m30s",
  "proxy -service web -service-addr 127.0.0.1:80 -listen [::1]:8443 -register -register-id a",
  "proxy -service web -upstream db.query:[::1]:0x1f90 -upstream a:1 -upstream b.service:h:2",
  "proxy -config f -admin-bind off -idle-timeout 0 -max-connections 5",
  "connect envoy -sidecar-for web -admin-bind localhost:19000 -grpc-addr x -- --base-id 1",
  "check -service web -upstream db:9191",
  "dev -http-addr 127.0.0.1:0 -default-policy deny -demo",
  "wait-ready -admin :19001 -timeout 5s",
  "explain -sidecar-for web GET http://db/a?b -H x-a:b -json",
  "explain -inbound -source shop /a",
  "top -sort p99 -by caller,route -interval 1s -once",
  "tap -source web -status 5xx -slow 100ms -header x-request-id -denied -json",
  "doctor -admin :19000 -json",
  "status -admin 127.0.0.1:19001,:19002 -json -no-color",
  "help proxy",
];
const FLAGS = PROXY_FLAGS.flatMap(({ flags }) => flags.map(({ name }) => `-${name}`));

function checkProxy(options: ProxyOptions): void {
  const { mode, adminBind } = options;
  for (const [name, value] of Object.entries(options)) {
    if (typeof value === "number") assert.ok(Number.isFinite(value) && value >= 0, name);
  }
  assert.ok(options.workers <= 256 && options.maxConnections >= 1);
  if (adminBind.kind === "address") assertPort(adminBind.port, 0);
  if (mode.kind !== "flags") return;
  assert.ok(mode.listen !== undefined || mode.upstreams.length > 0);
  for (const { name, host, port } of mode.upstreams) {
    assert.ok(name !== "" && host !== "");
    assertPort(port, 1);
  }
  assert.equal(new Set(mode.upstreams.map(({ name }) => name)).size, mode.upstreams.length);
}

function assertPort(port: number, atLeast: number): void {
  assert.ok(Number.isInteger(port) && port >= atLeast && port <= 65_535, String(port));
}

export const target: FuzzTarget = {
  name: "args",
  corpus: LINES.map((line) => new TextEncoder().encode(line.replaceAll(" ", "\0"))),
  dictionary: [
    ...FLAGS.flatMap((flag) => [`\0${flag}\0`, `\0-${flag}=`]),
    ...ENVOY_FLAGS.map((name) => `\0-${name}\0`),
    ...["\0", "\0--\0", "=", ":", "[", "]", "0x", "1e9", "-1", "99999", "unix:///", "\n", "\u001b"],
  ],
  run(input) {
    const words = new TextDecoder().decode(input).split("\0");
    // The first word also as a variable, which is read in the same way.
    const env = { CONNECT_SIDECAR_FOR: words[0] };
    let command: Command;
    try {
      command = parseCommand(words, env);
    } catch (error) {
      assert.ok(error instanceof ProxyError, String(error));
      assert.equal(error.code, "usage");
      // deno-lint-ignore no-control-regex -- none may get through
      assert.doesNotMatch(error.message, /[\x00-\x1f\x7f-\x9f]/);
      assert.ok(error.message.length < 1_000, `${error.message.length} characters`);
      return;
    }
    if (command.kind === "proxy" || command.kind === "check") checkProxy(command.options);
    if (command.kind === "wait_ready" && command.waitFor.kind === "address") {
      assertPort(command.waitFor.admin.port, 1);
    }
    if (command.kind === "dev") assertPort(command.options.listen.port, 0);
  },
};
