import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { AskAdmin } from "../../admin/mod.ts";
import { HELP_TOPICS } from "./args.ts";
import { completionOf } from "./complete.ts";

interface Running {
  readonly sidecarFor: string;
  readonly upstreams: readonly string[];
}

/** Answers as the admin servers of these proxies; no other port has a server. */
function machine(proxies: Readonly<Record<number, Running>>): AskAdmin {
  return ({ port }, { path }) => {
    const proxy = proxies[port];
    if (!proxy) return Promise.reject(new Error("connection refused"));
    const id = `${proxy.sidecarFor}-sidecar-proxy`;
    const info = { node: { id }, postern: { options: { sidecarFor: proxy.sidecarFor } } };
    const listeners = ["inbound", ...proxy.upstreams].map((name) => {
      return { name, direction: name === "inbound" ? "inbound" : "outbound" };
    });
    const body = JSON.stringify(path === "/server_info" ? info : { listeners });
    return Promise.resolve({ status: 200, body });
  };
}

const HOST = machine({
  19000: { sidecarFor: "web-1", upstreams: ["service:default/default/db", "prepared_query:geo"] },
  19001: { sidecarFor: "db-1", upstreams: [] },
  // Another user of the machine answers.
  19002: { sidecarFor: "x; reboot", upstreams: ["$(reboot)"] },
});

for (
  const [line, want] of [
    ["pr", ["proxy"]],
    ["help pl", ["plugin"]],
    ["connect ", ["proxy", "envoy"]],
    ["completion ", ["bash", "zsh", "fish"]],
    ["plugin d", ["dev"]],
    ["plugin check ", "files"],
    ["plugin new ", []],
    ["no-such-command -", ["-help"]],
    ["wait-ready -c", ["-config", "-catalog"]],
    ["wait-ready -catalog -c", ["-config"]],
    ["wait-ready --cat", ["--catalog"]],
    ["check -token-f", ["-token-file"]],
    ["connect envoy -authorize ", ["match", "both"]],
    ["connect proxy -ready=a", ["-ready=all", "-ready=any"]],
    ["proxy -upstream a:1 -upst", ["-upstream"]],
    ["proxy -state-dir ", "directories"],
    ["proxy --config=/etc/", "files"],
    ["proxy -gateway ", ["ingress"]],
    ["proxy -datacenter ", []],
    ["dev -default-policy d", ["deny"]],
    ["dataplane -log-level tr", ["trace"]],
    ["explain -sidecar-for ", ["web-1", "db-1"]],
    ["explain -proxy-id d", ["db-1-sidecar-proxy"]],
    ["wait-ready -admin 127.0.0.1:19001", ["127.0.0.1:19001"]],
    ["explain ", ["db", "prepared_query:geo"]],
    ["explain -sidecar-for db-1 ", []],
    ["explain -proxy-id=web-1-sidecar-proxy d", ["db"]],
    ["explain -admin 127.0.0.1:19000 GET http://d", ["http://db/"]],
    ["explain PU", ["PUT"]],
    ["explain endpoint_re", ["endpoint_refused", "endpoint_reset"]],
    ["explain GET endpoint_re", []],
    ["tap -upstream ", ["db", "prepared_query:geo"]],
    ["tap -sidecar-for web-1 -upstream=d", ["-upstream=db"]],
    ["events -kind intention,ch", ["intention,chain"]],
    ["events -kind=chain,c", ["-kind=chain,certificate"]],
    ["top -by caller,e", ["caller,endpoint"]],
    ["top -sort p", ["p50", "p99"]],
    ["explain -inbound ", []],
  ] as const
) {
  test(`completionOf() answers "${line}"`, async () => {
    const found = await completionOf(line.split(" "), HOST);
    assert.deepEqual(typeof found === "string" ? found : found.map(({ value }) => value), want);
  });
}

test("completionOf() offers every command with its explanation", async () => {
  const found = await completionOf([""], HOST);
  assert.ok(typeof found !== "string");
  const wanted = [...HELP_TOPICS.filter((topic) => topic !== ""), "help"];
  assert.deepEqual(found.map(({ value }) => value).sort(), wanted.sort());
  for (const { value, about = "" } of found) assert.ok(about.length > 10, value);
});
