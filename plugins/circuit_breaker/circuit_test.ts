import assert from "node:assert/strict";
import { test } from "node:test";
import { Circuit, type CircuitTerms } from "./circuit.ts";

const TERMS: CircuitTerms = {
  consecutiveFailures: 3,
  failurePercent: 50,
  minRequests: 10,
  windowMs: 1_000,
  openMs: 500,
  probes: 1,
};

/** Each letter is a request: s succeeds, f fails, n has no verdict. A number waits so many milliseconds. */
function run(script: string, terms: Partial<CircuitTerms> = {}): string {
  const circuit = new Circuit({ ...TERMS, ...terms });
  let nowMs = 0;
  let seen = "";
  for (const [step] of script.matchAll(/\d+|[sfn]/g)) {
    if (/\d/.test(step)) {
      nowMs += Number(step);
      continue;
    }
    const epoch = circuit.enter(nowMs);
    if (epoch === undefined) {
      seen += "-";
      continue;
    }
    const verdict = step === "s" ? "success" : step === "f" ? "failure" : "none";
    const change = circuit.leave(epoch, verdict, nowMs);
    seen += change === undefined ? "." : change === "closed" ? "c" : "o";
  }
  return seen;
}

for (
  const [what, script, want, terms] of [
    ["opens after failures in a row", "ffsffsfff s", "........o-", {}],
    ["does not count requests without a verdict", "fnfnsff n f", "........o", {
      consecutiveFailures: 3,
      failurePercent: 0,
    }],
    ["opens at a share of failures", "sf sf sf sf sf", ".........o", {}],
    ["does not open below the number of requests", "sf sf sf sf", "........", {}],
    ["does not open below the share", "ssf ssf ssf ssf ssf", ".".repeat(15), {}],
    ["forgets requests that the window has left", "sf sf sf sf 1000 sf", "..........", {}],
    ["forgets only the parts that have left", "sf sf sf sf 900 sf", ".........o", {}],
    ["forgets all after a long time", "sf sf sf sf 100000 sf", "..........", {}],
    ["does not count in a row if that is off", "ffffff ss ff", ".........o", {
      consecutiveFailures: 0,
    }],
    ["admits a probe after its time, and closes", "fff 499 s 1 s s", "..o-c.", {}],
    ["opens again if the probe fails", "fff 500 f s 499 s 1 s", "..oo--c", {}],
    ["admits another probe after one without a verdict", "fff 500 n s", "..o.c", {}],
    ["closes after several probes", "fff 500 s s s", "..o..c", { probes: 3 }],
    ["opens at one failed probe", "fff 500 s f s", "..o.o-", { probes: 3 }],
    ["begins with empty counts", "fff 500 s ff", "..oc..", {}],
  ] as const
) {
  test(`Circuit ${what}`, () => assert.equal(run(script, terms), want));
}

test("Circuit has as many probes at a time as it needs, and gives up those without a result", () => {
  const circuit = new Circuit({ ...TERMS, probes: 2 });
  for (let i = 0; i < 3; i++) circuit.leave(circuit.enter(0) ?? -1, "failure", 0);
  const probes = [circuit.enter(500), circuit.enter(500), circuit.enter(500), circuit.enter(999)];
  assert.deepEqual(probes.map((probe) => probe !== undefined), [true, true, false, false]);
  assert.equal(circuit.leftMs(999), 1);
  const later = circuit.enter(1_000) ?? -1;
  assert.equal(circuit.leave(probes[0] ?? -1, "failure", 1_000), undefined, "it was given up");
  assert.equal(circuit.leave(later, "success", 1_000), undefined);
  assert.equal(circuit.leave(circuit.enter(1_000) ?? -1, "success", 1_000), "closed");
});

test("Circuit does not count results of requests that began before it opened", () => {
  const circuit = new Circuit(TERMS);
  const early = circuit.enter(0) ?? -1;
  for (let i = 0; i < 3; i++) circuit.leave(circuit.enter(0) ?? -1, "failure", 0);
  const probe = circuit.enter(500) ?? -1;
  assert.equal(circuit.leave(early, "success", 500), undefined);
  assert.equal(circuit.isOpen, true);
  assert.equal(circuit.leave(probe, "success", 500), "closed");
});
