/** A session with scripted servers: time, token, log and figures are the test's. @module */

import { FakeClock, settle } from "../clock/clock.ts";
import { type MemoryCall, MemoryServers } from "./memory_servers.ts";
import {
  createLog,
  type LogRecord,
  type ProxyError,
  seededRandom,
  Stats,
} from "../../../src/base/mod.ts";
import { ClusterPin } from "../../../src/consul/http/cluster.ts";
import { PROXY_FLAGS } from "../../../src/consul/model/flag_names.ts";
import { WATCH_ROOTS } from "../../../src/consul/servers/methods.ts";
import { ServersSession } from "../../../src/consul/servers/session.ts";
import type { ServersOptions } from "../../../src/consul/servers/types.ts";
import type { CallToken } from "../../../src/consul/http/token.ts";

/** Servers. */
export const [A, B, C]: readonly [string, string, string] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];

/** Plain text, and the first server alone is given. */
export const OPTIONS: ServersOptions = {
  places: { kind: "names", names: [A] },
  grpcPort: 8502,
  httpPort: 8500,
  tls: null,
  watchServers: true,
  node: "n1",
  token: "",
  tokenFile: "",
  login: null,
  datacenter: "",
  namespace: "",
  partition: "",
  names: PROXY_FLAGS,
};

/** From a dial over both sides of HTTP/2 to an answer, on either engine. */
const TURNS = 20;
const STEPS = 40;

export class ScriptedToken implements CallToken {
  value = "t1";
  coming: Promise<void> | undefined;
  readonly rejections: string[] = [];
  readonly #listeners = new Set<() => void>();

  current(): string {
    return this.value;
  }

  onChange(fn: () => void): () => void {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  rejected(token: string): void {
    this.rejections.push(token);
  }

  change(value: string): void {
    this.value = value;
    for (const fn of this.#listeners) fn();
  }
}

export class SessionRig implements Disposable {
  readonly clock = new FakeClock();
  readonly servers = new MemoryServers(this.clock);
  readonly token = new ScriptedToken();
  readonly cluster = new ClusterPin();
  readonly lines: LogRecord[] = [];
  readonly stats = new Stats();
  readonly moves: string[] = [];
  readonly events: string[] = [];
  /** The addresses of each name. */
  readonly addresses = new Map<string, readonly string[]>();
  lookedUp = 0;
  readonly roots: string[] = [];
  readonly errors: ProxyError[] = [];
  #session: ServersSession | undefined;

  start(options: Partial<ServersOptions> = {}): ServersSession {
    const { clock, token, stats } = this;
    const session = new ServersSession({ ...OPTIONS, ...options }, {
      engine: this.servers.engine,
      clock,
      token,
      stats,
      report: ({ text }) => void this.events.push(text),
      random: seededRandom(1),
      cluster: this.cluster,
      log: createLog({
        clock,
        holder: { level: "trace" },
        write: (line) => void this.lines.push(line),
      }),
      lookup: (name) => {
        this.lookedUp++;
        const found = this.addresses.get(name);
        return found ? Promise.resolve(found) : Promise.reject(new Error(`${name} has no address`));
      },
    });
    session.onMove(({ host }) => void this.moves.push(host));
    this.#session = session;
    return session;
  }

  /** The results are in `roots` and `errors`. */
  follow(session: ServersSession): { stop(): void } {
    return session.follow(WATCH_ROOTS, null, {
      onMessage: ({ trustDomain }) => void this.roots.push(trustDomain),
      onError: (error) => void this.errors.push(error),
    });
  }

  /** Time goes on in steps, each when all that needs no time has happened. */
  async run(ms: number): Promise<void> {
    for (let step = 0; step <= STEPS; step++) {
      for (let turn = 0; turn < TURNS; turn++) await settle();
      if (step < STEPS) await this.clock.advance(ms / STEPS);
    }
  }

  messages(level: string): string[] {
    return this.lines.filter((line) => line.level === level).map(({ message }) => message);
  }

  value(name: string): number | undefined {
    return this.stats.samples().find((sample) => sample.name === name)?.value;
  }

  [Symbol.dispose](): void {
    this.#session?.close();
  }
}

/** Answers with a list of roots of this trust domain. */
export function rootsOf(name: string): (call: MemoryCall) => void {
  const message = { trust_domain: name, roots: [{ id: "r", serial_number: "12" }] };
  return (call) => call.send("RootList", message);
}

/** The outcome of a call: its answer as JSON, or the code and the message of its error. */
export async function outcome(answer: Promise<unknown>): Promise<string> {
  try {
    return JSON.stringify(await answer);
  } catch (error) {
    const { code, message } = error as ProxyError;
    return `${code}: ${message}`;
  }
}
