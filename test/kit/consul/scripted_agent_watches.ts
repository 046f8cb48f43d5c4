/**
 * An agent whose answers a test gives by hand, one watch at a time. It checks nothing: the behaviour of
 * a real agent is the embedded agent's business.
 *
 * @module
 */

import { type ErrorCode, ProxyError } from "../../../src/base/mod.ts";
import type {
  ChainRequest,
  Consul,
  Defaults,
  DefaultsRequest,
  DiscoveryChain,
  HealthRequest,
  Instance,
  Intentions,
  JwtProvider,
  Leaf,
  Mesh,
  QueryRequest,
  QueryResult,
  RegisterRequest,
  RegisterSignals,
  Registration,
  RightsCheck,
  Roots,
  WatchHandle,
  WatchSink,
  WatchState,
} from "../../../src/consul/mod.ts";

interface Running {
  readonly key: string;
  readonly sink: WatchSink<never>;
  failures: number;
  lastError: string | undefined;
}

/** Key of a watch, and the value it delivers. */
interface ScriptedAnswers {
  registration: Registration;
  leaf: Leaf;
  roots: Roots;
  intentions: Intentions;
  "default policy": "allow" | "deny";
  "mesh entry": Mesh | null;
  "service-defaults": Defaults | null;
  "proxy-defaults": Defaults | null;
}

export class ScriptedAgent implements Consul {
  called: Consul["called"] = "agent";
  /** Every watch that was ever started, by key, in order. */
  readonly started: string[] = [];
  readonly stopped: string[] = [];
  closed = false;
  readonly #values = new Map<string, unknown>([
    ["service-defaults", null],
    ["proxy-defaults", null],
  ]);
  readonly #running = new Set<Running>();

  /** Answers a watch that there is one of. */
  answer<K extends keyof ScriptedAnswers>(key: K, value: ScriptedAnswers[K]): this {
    return this.#answer(key, value);
  }

  /** `asked` is `service`, or `service as tcp` where the request names a protocol. */
  chain(asked: string, value: DiscoveryChain): this {
    return this.#answer(`chain ${asked}`, value);
  }

  /** `at` is `service`, or `service@dc` for a datacenter other than dc1; a filter follows a `?`. */
  health(at: string, value: readonly Instance[]): this {
    return this.#answer(`health ${at}`, value);
  }

  jwtProvider(name: string, value: JwtProvider | null): this {
    return this.#answer(`jwt-provider ${name}`, value);
  }

  query(name: string, value: QueryResult): this {
    return this.#answer(`query ${name}`, value);
  }

  /** The answer to new requests from now on; watches get theirs later, by {@link answer}. */
  holds<K extends keyof ScriptedAnswers>(key: K, value: ScriptedAnswers[K]): this {
    this.#values.set(key, value);
    return this;
  }

  /** Fails a running watch; its values stay. */
  fail(key: string, code: ErrorCode, message = "scripted failure"): this {
    for (const running of this.#of(key)) {
      running.failures++;
      running.lastError = message;
      running.sink.onError(new ProxyError(code, message));
    }
    return this;
  }

  /** An unchanged answer after failures: nothing is delivered. */
  heal(key: string): this {
    for (const running of this.#of(key)) running.failures = 0;
    return this;
  }

  /** Keys of running watches, sorted. */
  get running(): readonly string[] {
    return [...this.#running].map(({ key }) => key).sort();
  }

  watchRegistration(_proxyId: string, sink: WatchSink<Registration>): WatchHandle {
    return this.#watch("registration", sink);
  }

  watchLeaf(service: string, sink: WatchSink<Leaf>): WatchHandle {
    return this.#watch("leaf", sink, service);
  }

  watchRoots(sink: WatchSink<Roots>): WatchHandle {
    return this.#watch("roots", sink);
  }

  watchIntentions(service: string, sink: WatchSink<Intentions>): WatchHandle {
    return this.#watch("intentions", sink, service);
  }

  watchDefaultPolicy(_request: unknown, sink: WatchSink<"allow" | "deny">): WatchHandle {
    return this.#watch("default policy", sink);
  }

  watchChain(request: ChainRequest, sink: WatchSink<DiscoveryChain>): WatchHandle {
    const { service, protocol } = request;
    return this.#watch(`chain ${service}${protocol ? ` as ${protocol}` : ""}`, sink);
  }

  watchHealth(request: HealthRequest, sink: WatchSink<readonly Instance[]>): WatchHandle {
    const datacenter = ["", "dc1"].includes(request.datacenter) ? "" : `@${request.datacenter}`;
    const filter = request.filter ? `?${request.filter}` : "";
    return this.#watch(`health ${request.service}${datacenter}${filter}`, sink);
  }

  watchQuery(request: QueryRequest, sink: WatchSink<QueryResult>): WatchHandle {
    return this.#watch(`query ${request.name}`, sink);
  }

  watchMesh(sink: WatchSink<Mesh | null>): WatchHandle {
    return this.#watch("mesh entry", sink);
  }

  watchDefaults({ kind, name }: DefaultsRequest, sink: WatchSink<Defaults | null>): WatchHandle {
    return this.#watch(kind, sink, name);
  }

  askDefaults({ kind }: DefaultsRequest): Promise<Defaults | null> {
    if (!this.#values.has(kind)) return Promise.reject(new ProxyError("agent_failed", "scripted"));
    return Promise.resolve(this.#values.get(kind) as Defaults | null);
  }

  askIntentions(): Promise<never> {
    return Promise.reject(new ProxyError("agent_failed", "scripted"));
  }

  askKey(): Promise<never> {
    return Promise.reject(new ProxyError("agent_failed", "scripted"));
  }

  askInCatalog(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  askFailingChecks(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  watchJwtProvider(name: string, sink: WatchSink<JwtProvider | null>): WatchHandle {
    return this.#watch(`jwt-provider ${name}`, sink);
  }

  findSidecar(serviceId: string): Promise<string> {
    return Promise.resolve(`${serviceId}-sidecar-proxy`);
  }

  findProxy(proxyId: string): Promise<string> {
    return Promise.resolve(proxyId);
  }

  findGateway(service: string): Promise<string> {
    return Promise.resolve(service);
  }

  checkRights(): Promise<RightsCheck> {
    return Promise.resolve({ kind: "checked", missing: [] });
  }

  authorize(): Promise<{ readonly allowed: boolean; readonly reason: string }> {
    return Promise.resolve({ allowed: false, reason: "scripted" });
  }

  keepRegistered(_request: RegisterRequest, _signals: RegisterSignals): Promise<void> {
    return Promise.resolve();
  }

  watchStates(): readonly WatchState[] {
    return [...this.#running].map((running) => stateOf(running));
  }

  close(): void {
    this.closed = true;
    this.#running.clear();
  }

  #answer(key: string, value: unknown): this {
    this.#values.set(key, value);
    for (const running of this.#of(key)) {
      running.failures = 0;
      running.sink.onValue(value as never);
    }
    return this;
  }

  #of(key: string): readonly Running[] {
    return [...this.#running].filter((running) => running.key === key);
  }

  #watch<T>(key: string, sink: WatchSink<T>, detail = ""): WatchHandle {
    this.started.push(detail ? `${key} ${detail}` : key);
    const running: Running = { key, sink, failures: 0, lastError: undefined };
    this.#running.add(running);
    // The first answer never comes within the call, as with a real agent.
    queueMicrotask(() => {
      if (this.#running.has(running) && this.#values.has(key)) {
        sink.onValue(this.#values.get(key) as T);
      }
    });
    return {
      stop: () => {
        if (this.#running.delete(running)) this.stopped.push(key);
      },
      get state() {
        return stateOf(running);
      },
    };
  }
}

function stateOf({ key, failures, lastError }: Running): WatchState {
  return { name: key, mode: "long", lastSuccessMs: undefined, failures, lastError };
}
