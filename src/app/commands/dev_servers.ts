/**
 * `postern dev -servers N`: starts embedded servers, and does to them what lines on standard input say.
 *
 * @module
 */

import type { Readable } from "node:stream";
import { type Log, ProxyError, systemClock, systemRandom } from "../../base/mod.ts";
import { type DevServers, startDevServers } from "../../dev/mod.ts";
import type { DevOptions } from "../command_line/args.ts";

/** By convention of Consul's own ports, 8500 and 8502. */
const GRPC_ABOVE_HTTP = 2;
/** What is beyond it in one line is no command. */
const LINE_LIMIT = 200;

/** On the address of `options` and those after it. `port` in place of the one that they say. */
export async function startServers(
  options: DevOptions,
  log: Log,
  port: number = options.listen.port,
): Promise<DevServers> {
  const { listen, servers: count, datacenter, defaultPolicy, token } = options;
  try {
    return await startDevServers({
      clock: systemClock,
      random: systemRandom,
      log,
      hosts: hostsFrom(listen.host, count),
      httpPort: port,
      grpcPort: port === 0 ? 0 : port + GRPC_ABOVE_HTTP,
      datacenter,
      defaultIntentionPolicy: defaultPolicy,
      ...(token !== undefined && {
        acl: { defaultPolicy: "deny", tokens: [{ secretId: token, management: true }] },
      }),
    });
  } catch (error) {
    const { code } = (error as { cause?: { code?: string } }).cause ?? {};
    if (!(error instanceof ProxyError) || code !== "EADDRNOTAVAIL") throw error;
    throw new ProxyError(
      "listen_failed",
      `Cannot start ${count} servers: this system does not have the address of each (Linux has ` +
        "all of 127.0.0.0/8); add them to its loopback interface, or give -servers 1",
      { cause: error.cause },
    );
  }
}

/** `count` addresses in a row. */
function hostsFrom(first: string, count: number): readonly string[] {
  const octets = first.split(".").map(Number);
  const [a, b, c, d = 0] = octets;
  const isIp = octets.length === 4 && octets.every((octet) => octet >= 0 && octet <= 255);
  if (!isIp || d + count > 255) {
    throw new ProxyError(
      "usage",
      `Cannot start ${count} servers from "${first}" on: want an IPv4 address in -http-addr that ` +
        "others come after",
    );
  }
  return Array.from({ length: count }, (_, number) => `${a}.${b}.${c}.${d + number}`);
}

/** What to print once they listen. */
export function serversIntroduction(servers: DevServers): string {
  const { hosts, httpPort, grpcPort } = servers;
  const proxy = `postern proxy ${proxyFlags(servers).join(" ")} -node NODE`;
  const count = hosts.length === 1 ? "One server listens" : `${hosts.length} servers listen`;
  return `${count}, without an agent; nothing is kept when they end.\n` +
    `${hosts.join(", ")}: HTTP on port ${httpPort}, gRPC on port ${grpcPort}, no TLS.\n` +
    "Point the Consul CLI and proxies at them:\n\n" +
    `    export CONSUL_HTTP_ADDR=${servers.servers[0]?.address}\n` +
    `    ${proxy} -proxy-id ID\n` +
    `    ${proxy} -register -service NAME -service-addr ADDRESS -listen ADDRESS\n\n` +
    "Type kill N, hang N, resume N, restart N or elect, and Enter; N is 1 for the first server.\n\n";
}

/** What makes a proxy live beside these servers. */
export function proxyFlags({ hosts, httpPort, grpcPort }: DevServers): readonly string[] {
  const ports = ["-http-port", String(httpPort), "-grpc-port", String(grpcPort)];
  return ["-servers", hosts.join(","), "-tls-disabled", ...ports];
}

/** Obeys each line of `input`; `say` is told what came of it. Returns how to stop. */
export function obeyLines(
  servers: DevServers,
  input: Readable,
  say: (text: string) => void,
): () => void {
  let pending = "";
  const onData = (chunk: Uint8Array | string) => {
    const lines = (pending + String(chunk)).split("\n");
    pending = (lines.pop() ?? "").slice(0, LINE_LIMIT);
    for (const line of lines) {
      if (line.trim() !== "") void obey(servers, line.trim()).then(say);
    }
  };
  input.on("data", onData);
  const stopLed = servers.onLed((leader) => {
    say(leader === undefined ? "Nobody leads." : `Server ${leader + 1} leads.`);
  });
  return () => {
    stopLed();
    input.off("data", onData);
    input.pause();
  };
}

/** Does what a line says; what came of it, in words. */
export async function obey(servers: DevServers, line: string): Promise<string> {
  const [verb = "", word = "", ...rest] = line.split(/\s+/);
  if (verb === "elect" && word === "") {
    servers.elect();
    return servers.leader === undefined ? "Too few servers run for one to lead." : "Elected.";
  }
  const server = Number(word) - 1;
  const isKnown = /^[1-9]$/.test(word) && servers.servers[server] && rest.length === 0;
  if (!isKnown || !["kill", "hang", "resume", "restart"].includes(verb)) {
    return "Want kill N, hang N, resume N, restart N or elect; N is the number of a server.";
  }
  if (verb === "kill") servers.kill(server);
  if (verb === "hang") servers.hang(server);
  if (verb === "resume") servers.resume(server);
  if (verb === "restart") await servers.restart(server, { empty: true });
  return `Server ${word} (${servers.hosts[server]}): ${STATES[servers.stateOf(server)]}.`;
}

const STATES = {
  running: "running",
  hung: "hangs; resume lets it go on",
  stopped: "dead; restart brings it back",
} as const;
