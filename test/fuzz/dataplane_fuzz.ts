/**
 * The command line of `postern dataplane`: any words, and any text for a configuration file and for the
 * proxy's id, give options whose values are within their bounds, or a refusal that is one line and
 * contains no token.
 *
 * @module
 */

import assert from "node:assert/strict";
import { parseDataplane } from "../../src/app/consul_dataplane/values.ts";
import { SETTINGS } from "../../src/app/consul_dataplane/flags.ts";
import { type DataplaneOptions, dataplaneOptions } from "../../src/app/consul_dataplane/options.ts";
import { dataplaneValues } from "../../src/app/consul_dataplane/values.ts";
import type { FuzzTarget } from "./fuzz.ts";
import { refuses } from "./fuzz.ts";

const LEAST = ["-proxy-node-name", "n", "-config-file=c.json"];
const FILE = {
  consul: {
    addresses: "consul.dc1",
    grpcPort: 8_503,
    tls: { disabled: false, caCertsPath: "/ca.pem", tlsServerName: "consul.dc1" },
    credentials: {
      type: "login",
      login: { authMethod: "k8s", bearerToken: "b", meta: { a: "b" } },
    },
  },
  envoy: { readyBindAddress: "127.0.0.1", readyBindPort: 23_000, concurrency: 2 },
  telemetry: { prometheus: { retentionTime: "60s", serviceMetricsURL: "http://127.0.0.1:1/m" } },
};
/** Words, and after a line break the file; words are apart by a zero byte. */
const CORPUS = [
  `-proxy-id\0web\0-log-level=\0--\0--base-id\0${7}\n${JSON.stringify(FILE)}`,
  `-proxy-id-path=/id\0-shutdown-drain-listeners\0-graceful-port=20600\n{"proxy":{"idPath":"/i"}}`,
  `-addresses\0exec=/bin/echo a\0-tls-disabled\0-login-meta\0a=b\0-proxy-service-id\0w\n{}`,
];

function check({ proxy, ready, lifecycle, metrics }: DataplaneOptions): void {
  const ports = [
    lifecycle.port,
    metrics.mergePort,
    ready?.port ?? 1,
    proxy.serversFlags?.grpcPort ?? 0,
    proxy.serversFlags?.httpPort ?? 0,
  ];
  for (const port of ports) assert.ok(Number.isInteger(port) && port >= 1 && port <= 65_535);
  assert.ok(lifecycle.shutdownGraceMs >= 0 && lifecycle.shutdownGraceMs <= 86_400_000);
  assert.ok(proxy.workers >= 1 && proxy.workers <= 256);
  assert.ok(proxy.mode.kind === "agent" && proxy.mode.id !== "");
  // deno-lint-ignore no-control-regex -- none may get through
  for (const line of proxy.warnings) assert.doesNotMatch(line, /[\x00-\x1f\x7f-\x9f]/);
}

export const target: FuzzTarget = {
  name: "dataplane",
  corpus: CORPUS.map((text) => new TextEncoder().encode(text)),
  dictionary: [
    ...SETTINGS.flatMap((
      { name, keys: [key = name] },
    ) => [`\0-${name}=`, `"${key.split(".").at(-1)}":`]),
    ...["\0", "\0--\0", "\n", "{", "}", "null", "[", "-1", "1e999", '"__proto__":', "\\u0000"],
  ],
  run(input) {
    const text = new TextDecoder().decode(input);
    const at = text.indexOf("\n");
    const words = text.slice(0, at < 0 ? undefined : at).split("\0");
    const readText = (path: string) => path === "c.json" ? text.slice(at + 1) : text.slice(0, 40);
    const options = refuses(["usage", "config_invalid"], () => {
      try {
        const { flags, forEnvoy } = parseDataplane([...LEAST, ...words], {});
        const values = dataplaneValues(flags, {}, readText);
        return dataplaneOptions(values, { forEnvoy, readText });
      } catch (error) {
        const { message } = error as Error;
        // deno-lint-ignore no-control-regex -- none may get through
        assert.doesNotMatch(message, /[\x00-\x1f\x7f-\x9f]/);
        assert.ok(message.length < 1_000, `${message.length} characters`);
        throw error;
      }
    });
    if (options) check(options);
  },
};
