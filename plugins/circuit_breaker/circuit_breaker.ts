/**
 * Refuses requests to a service that fails, and lets a few through from time to time to learn whether it
 * works again. It is outside of retries, so that an open circuit ends them as well.
 *
 * @module
 */

import * as v from "valibot";
import type { Host, HttpResponse, Plugin, PluginDefinition } from "../../src/plugin/api.ts";
import { Circuit, type CircuitChange, type CircuitTerms, type CircuitVerdict } from "./circuit.ts";

const Count = (least: number, most: number) =>
  v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most));
const Config = v.pipe(
  v.strictObject({
    consecutiveFailures: v.optional(Count(0, 10_000), 5),
    failurePercent: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(100)), 50),
    minRequests: v.optional(Count(1, 1_000_000), 20),
    windowMs: v.optional(Count(100, 600_000), 10_000),
    openMs: v.optional(Count(10, 600_000), 10_000),
    probes: v.optional(Count(1, 100), 1),
  }),
  v.check(
    ({ consecutiveFailures, failurePercent }) => consecutiveFailures > 0 || failurePercent > 0,
    "without consecutiveFailures and failurePercent no circuit ever opens",
  ),
);

/** Failures of the service or of its endpoints; others are the caller's or this proxy's. */
const FAILURES: ReadonlySet<string> = new Set([
  "no_endpoint",
  "endpoint_refused",
  "endpoint_untrusted",
  "endpoint_timed_out",
  "endpoint_reset",
  "local_refused",
  "local_timed_out",
  "refused_by_peer",
  "response_invalid",
  "response_reset",
  "response_timed_out",
]);
/** UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE and DATA_LOSS. */
const GRPC_FAILURES: ReadonlySet<string | undefined> = new Set(["2", "4", "13", "14", "15"]);

export default {
  name: "circuit_breaker",
  api: 1,
  phase: "filter",
  config: Config,
  create(host, terms): Plugin {
    const breakers = new Map<string, Breaker>();
    const make = makerOf(host, terms);
    return {
      onRequest({ exchange, route }, next) {
        // The services of the routes, so there are few. Inbound there is only the application.
        const service = route?.service || "the application";
        let breaker = breakers.get(service);
        if (!breaker) breakers.set(service, breaker = make(service));
        const { circuit } = breaker;
        const epoch = circuit.enter(host.clock.now());
        if (epoch === undefined) return breaker.refuse();
        let isJudged = false;
        const judge = (verdict: CircuitVerdict) => {
          if (!isJudged) breaker.changed(circuit.leave(epoch, verdict, host.clock.now()));
          isJudged = true;
        };
        // A limit outside of this plugin ends the exchange without a response here.
        exchange.onEnd(({ code }) => judge(FAILURES.has(code) ? "failure" : "none"));
        return next({
          response: (response) => {
            if (response.failure?.code !== "downstream_reset") judge(verdictOf(response));
            return response;
          },
        });
      },
      close() {
        for (const breaker of breakers.values()) breaker.close();
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

function verdictOf({ status, headers, endpoint, failure }: HttpResponse): CircuitVerdict {
  if (failure) return FAILURES.has(failure.code) ? "failure" : "none";
  // A plugin further in answered.
  if (endpoint === null) return "none";
  if (status >= 500 || GRPC_FAILURES.has(headers.get("grpc-status"))) return "failure";
  return "success";
}

interface Breaker {
  readonly circuit: Circuit;
  refuse(): HttpResponse;
  changed(change: CircuitChange): void;
  close(): void;
}

function makerOf(host: Host, terms: CircuitTerms): (service: string) => Breaker {
  const { stats, clock } = host;
  const refused = stats.counter("refused", { help: "Requests refused while a circuit was open" });
  const opened = stats.counter("opened", { help: "Times that a circuit opened" });
  const open = stats.gauge("open", { help: "Circuits that are open or half-open" });
  return (service) => {
    const circuit = new Circuit(terms);
    let end: ((text: string) => void) | undefined;
    const ended = (text: string) => {
      if (!end) return;
      open.add(-1);
      end(text);
      end = undefined;
    };
    return {
      circuit,
      refuse() {
        refused.add(1);
        const seconds = Math.max(1, Math.ceil(circuit.leftMs(clock.now()) / 1_000));
        return host.refuse("overloaded", `the circuit of ${service} is open`).with({
          headers: { set: { "x-postern-circuit": "open", "retry-after": `${seconds}` } },
        });
      },
      changed(change) {
        if (change === undefined) return;
        if (change === "closed") return ended(`the circuit of ${service} is closed again`);
        opened.add(1);
        if (end) return;
        open.add(1);
        end = host.condition({
          key: `circuit of ${service}`,
          text: `the circuit of ${service} is open: ${change.opened}`,
          effect: "requests to it are refused, except for probes",
        });
      },
      close: () => ended(`the circuit of ${service} is not followed any more`),
    };
  };
}
