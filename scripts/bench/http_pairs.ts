/**
 * Sidecar pairs that understand what they carry: the application's side and the mesh speak the same
 * protocol, as where Consul's `service-defaults` name one.
 *
 * @module
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../test/kit/process/ports.ts";
import { peer } from "../peers.ts";
import type { Subject } from "./cell.ts";
import {
  envoyHttpInbound,
  envoyHttpOutbound,
  haproxyInbound,
  haproxyOutbound,
  type HttpProtocol,
  nginxHttpInbound,
  nginxHttpOutbound,
} from "./http_config.ts";
import {
  type ConsulMesh,
  createConsulMesh,
  nginxOutbound,
  type Pair,
  posternInbound,
  posternOutbound,
  type Side,
  startEnvoy,
  type StartInbound,
  type StartOutbound,
  startPair,
} from "./pairs.ts";
import { Program } from "./program.ts";
import { BEFORE, ENVOY, POSTERN } from "./report.ts";
import { HOST, type Site, startNginx } from "./site.ts";

interface HttpPairs {
  /** The pairs that can speak the protocol. */
  of(protocol: HttpProtocol): Promise<Subject[]>;
  /** Postern's inbound behind a relay that opens a connection for each of its clients'. */
  behindRelay(protocol: HttpProtocol | "tcp", name: string): Promise<Subject>;
  /** As {@link behindRelay}, of Envoy. */
  envoyBehindRelay(protocol: HttpProtocol): Promise<Subject>;
  /** Postern's pairs, with nothing and with each set of plugins around requests. */
  withPlugins(protocol: HttpProtocol): Promise<Subject[]>;
  /** Postern's pairs on a Consul, by how many routes its router has. */
  withRoutes(counts: readonly number[]): Promise<Subject[]>;
  /** Postern's pair for plain TCP. */
  plain(): Promise<Subject>;
  close(): Promise<void>;
}

const BOTH = ["inbound", "outbound"] as const;
/** A line for each request would measure the disk. */
const QUIET = ["-log-level", "warn"];

let started = 0;

export function openHttpPairs(
  site: Site,
  peers: readonly string[],
  /** The executable of another build: a pair of its own in {@link HttpPairs.of}. */
  before?: string,
): HttpPairs {
  const open = new Map<string, Pair>();
  let mesh: ConsulMesh | undefined;
  const once = async (
    key: string,
    name: string,
    inbound: StartInbound,
    outbound: StartOutbound,
  ): Promise<Pair> => {
    const pair = open.get(key) ?? await startPair(site, name, { inbound, outbound });
    open.set(key, pair);
    return pair;
  };
  const starts: Readonly<
    Record<string, (protocol: HttpProtocol) => Promise<Pair> | undefined>
  > = {
    postern: (protocol) => {
      const settings = { protocol, args: QUIET };
      const sides = [posternInbound(settings), posternOutbound(settings)] as const;
      return once(`postern ${protocol}`, POSTERN, ...sides);
    },
    before: (protocol) => {
      if (before === undefined) return undefined;
      const settings = { protocol, args: QUIET, command: [before] };
      return once(
        `${BEFORE} ${protocol}`,
        BEFORE,
        posternInbound(settings),
        posternOutbound(settings),
      );
    },
    envoy: (protocol) => once(`envoy ${protocol}`, ENVOY, envoyIn(protocol), envoyOut(protocol)),
    haproxy: (protocol) =>
      once(`haproxy ${protocol}`, "haproxy", haproxyIn(protocol), haproxyOut(protocol)),
    nginx: (protocol) =>
      protocol === "http" ? once("nginx", "nginx", nginxIn, nginxOut) : undefined,
  };
  const subject = (pair: Pair, name: string, sides: Subject["sides"]): Subject => ({
    name,
    pair,
    sides,
  });
  return {
    async of(protocol) {
      const subjects: Subject[] = [];
      for (const [name, start] of Object.entries(starts)) {
        const isAsked = name === BEFORE || peers.includes(name);
        const pair = isAsked ? await start(protocol) : undefined;
        if (pair) subjects.push(subject(pair, pair.name, BOTH));
      }
      return subjects;
    },
    async behindRelay(protocol, name) {
      const inbound = posternInbound({ protocol, args: QUIET });
      const pair = await once(`relay ${protocol}`, name, inbound, nginxOutbound());
      return subject(pair, name, ["inbound"]);
    },
    async envoyBehindRelay(protocol) {
      const inbound = envoyIn(protocol);
      const pair = await once(`relay envoy ${protocol}`, ENVOY, inbound, nginxOutbound());
      return subject(pair, ENVOY, ["inbound"]);
    },
    async withPlugins(protocol) {
      const subjects: Subject[] = [];
      for (const [name, plugins] of [[POSTERN, undefined], ...Object.entries(PLUGINS)] as const) {
        const settings = { protocol, args: QUIET, ...(plugins ? { plugins } : {}) };
        const sides = [posternInbound(settings), posternOutbound(settings)] as const;
        const pair = await once(`${name} ${protocol}`, name, ...sides);
        subjects.push(subject(pair, name, BOTH));
      }
      return subjects;
    },
    async withRoutes(counts) {
      mesh ??= await createConsulMesh(site);
      const subjects: Subject[] = [];
      for (const count of counts) {
        const name = count === 1 ? ONE_ROUTE : `${POSTERN} ${count} routes`;
        const pair = open.get(name) ?? await mesh.startPostern(count);
        open.set(name, pair);
        subjects.push(subject(pair, name, ["outbound"]));
      }
      return subjects;
    },
    async plain() {
      const settings = { args: QUIET };
      const sides = [posternInbound(settings), posternOutbound(settings)] as const;
      return subject(await once("tcp", TCP, ...sides), TCP, BOTH);
    },
    async close() {
      await Promise.all([...open.values()].map((pair) => pair.stop()));
      await mesh?.close();
    },
  };
}

const HEADER_RULES = { use: "header_rules", config: { request: { set: { "x-team": "shop" } } } };

export const ONE_PLUGIN = `${POSTERN} one plugin`;

/** Plugins by the name of their pair. */
export const PLUGINS = {
  [ONE_PLUGIN]: [HEADER_RULES],
  [`${POSTERN} three plugins`]: [
    { use: "rate_limit", config: { limits: [{ requestsPerSecond: 1_000_000, by: "source" }] } },
    HEADER_RULES,
    {
      use: "access_log",
      config: { format: { text: "%REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE%" } },
    },
  ],
} as const;

export const ONE_ROUTE = `${POSTERN} 1 route`;
export const TCP = `${POSTERN} tcp`;

function envoyIn(protocol: HttpProtocol): StartInbound {
  return async (site) => {
    const port = await freePort(HOST);
    return startEnvoy(site, port, envoyHttpInbound(site, { protocol, port }));
  };
}

function envoyOut(protocol: HttpProtocol): StartOutbound {
  return async (site, target) => {
    const port = await freePort(HOST);
    return startEnvoy(site, port, envoyHttpOutbound(site, { protocol, port, target }));
  };
}

function haproxyIn(protocol: HttpProtocol): StartInbound {
  return async (site) => {
    const port = await freePort(HOST);
    return startHaproxy(site, port, haproxyInbound(site, { protocol, port }));
  };
}

function haproxyOut(protocol: HttpProtocol): StartOutbound {
  return async (site, target) => {
    const port = await freePort(HOST);
    return startHaproxy(site, port, haproxyOutbound(site, { protocol, port, target }));
  };
}

function startHaproxy({ directory }: Site, port: number, config: string): Side {
  const name = `haproxy-${++started}`;
  const file = join(directory, `${name}.cfg`);
  writeFileSync(file, config);
  // In the foreground, without a master.
  const program = new Program(peer("haproxy"), ["-db", "-f", file], {
    logFile: join(directory, `${name}.log`),
  });
  return { pid: program.pid, program, port };
}

const nginxIn: StartInbound = async (site) => {
  const port = await freePort(HOST);
  const config = nginxHttpInbound(site, port);
  const program = startNginx(site.directory, `nginx-http-${++started}`, config);
  return { pid: program.pid, program, port };
};

const nginxOut: StartOutbound = async (site, target) => {
  const port = await freePort(HOST);
  const config = nginxHttpOutbound(site, port, target);
  const program = startNginx(site.directory, `nginx-http-${++started}`, config);
  return { pid: program.pid, program, port };
};
