/** Our agent client against a {@link ScriptedAgent}, on a clock that the test moves. @module */

import { type ProxyError, seededRandom, silentLog, Stats } from "../../../src/base/mod.ts";
import {
  type AgentOptions,
  type Consul,
  createAgent,
  type WatchSink,
} from "../../../src/consul/mod.ts";
import { Transport } from "../../../src/consul/http/transport.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { FakeClock, settle } from "../clock/clock.ts";
import { eventually, type Handler, ScriptedAgent } from "./scripted_agent.ts";

/** The values that a watch has delivered. */
export class Seen<T> implements WatchSink<T> {
  readonly values: T[] = [];
  readonly errors: ProxyError[] = [];

  onValue(value: T): void {
    this.values.push(value);
  }

  onError(error: ProxyError): void {
    this.errors.push(error);
  }

  get last(): T | undefined {
    return this.values[this.values.length - 1];
  }

  /** Codes of the failures so far. */
  get codes(): string[] {
    return this.errors.map(({ code }) => code);
  }
}

/** Added to each request, so that both sides know it by the same name. */
const REQUEST_ID = "x-test-request";
/** Requests of this process that have neither their reply nor their end, by agent. */
const underway = new Map<string, Set<string>>();
nameRequests();

function nameRequests(): void {
  const { send } = Transport.prototype;
  let last = 0;
  Transport.prototype.send = async function (request) {
    const id = String(++last);
    const ids = underway.get(this.where) ?? new Set();
    underway.set(this.where, ids.add(id));
    try {
      return await send.call(this, {
        ...request,
        headers: { ...request.headers, [REQUEST_ID]: id },
      });
    } finally {
      ids.delete(id);
    }
  };
}

export class AgentClient {
  readonly clock: FakeClock = new FakeClock();
  readonly stats: Stats = new Stats();
  readonly script: ScriptedAgent;
  readonly agent: Required<Consul>;

  private constructor(
    script: ScriptedAgent,
    options: { readonly agent: Partial<AgentOptions>; readonly connections: number },
  ) {
    this.script = script;
    this.agent = createAgent(script.options(options.agent), {
      engine: runtimeEngine(),
      clock: this.clock,
      random: seededRandom(7),
      log: silentLog,
      stats: this.stats,
      connections: options.connections,
    });
  }

  static async start(
    handler: Handler,
    options: { readonly agent?: Partial<AgentOptions>; readonly connections?: number } = {},
  ): Promise<AgentClient> {
    const { agent = {}, connections = 12 } = options;
    return new AgentClient(await ScriptedAgent.start(handler), { agent, connections });
  }

  /** Waits, on the real clock, until the agent got `count` requests in all. */
  asked(count: number): Promise<void> {
    return eventually(() => this.script.requests.length >= count, `${count} requests`);
  }

  /** Waits until a long poll is open and everything else was answered. */
  quiet(): Promise<void> {
    return eventually(() => this.script.waiting > 0, "a long poll");
  }

  /**
   * Moves the clock on in steps until `fact` holds. Requests are real I/O, however long the machine
   * takes for it: the clock does not move until each has its reply, its end, or waits as a long poll
   * does.
   */
  async passUntil(
    fact: () => boolean,
    options: { readonly what: string; readonly stepMs?: number; readonly limitMs?: number },
  ): Promise<void> {
    const { what, stepMs = 250, limitMs = 600_000 } = options;
    for (let passed = 0;; passed += stepMs) {
      await this.#rest();
      if (fact()) return;
      if (passed > limitMs) throw new Error(`never happened within ${limitMs} ms: ${what}`);
      await this.clock.advance(stepMs);
    }
  }

  /** Waits, on the real clock, until the requests that are open here are those that hang there. */
  async #rest(): Promise<void> {
    const { address, unanswered } = this.script;
    const here = underway.get(`http://${address}`) ?? new Set();
    const same = () =>
      here.size === unanswered.size &&
      [...unanswered].every(({ headers }) => here.has(String(headers[REQUEST_ID])));
    await settle();
    await eventually(same, "every request is answered, ended or hangs");
    await settle();
  }

  count(name: string, labels: Readonly<Record<string, string>>): number {
    return this.stats.samples()
      .filter((sample) => sample.name === name)
      .filter((sample) => Object.entries(labels).every(([k, v]) => sample.labels[k] === v))
      .reduce((sum, sample) => sum + sample.value, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.agent.close();
    await this.script[Symbol.asyncDispose]();
  }
}
