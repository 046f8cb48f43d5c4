/**
 * Whom a plugin under test may ask: the calls of a proxy, to those who answer as the test says.
 *
 * @module
 */

import type { Callees } from "../plugin/mod.ts";
import { type Context, OutgoingCall } from "../proxy/mod.ts";
import type { FakeClock } from "./clock.ts";
import type { ScriptedUpstream } from "./scripted_upstream.ts";

export function scriptedCallees(
  scripts: Readonly<Record<string, ScriptedUpstream>>,
  clock: FakeClock,
): Callees {
  // What is left out is about the health of endpoints that were picked; none is, here.
  const context = { clock: clock as Context["clock"] } as Context;
  return {
    whyNot: ({ target }) => scripts[target] ? undefined : "the test has nobody of that name",
    open: ({ target }) => ({
      authority: target,
      ask(question, told) {
        const call = new OutgoingCall(question, told);
        const script = scripts[target];
        if (script) call.start(script, context);
        return call;
      },
      close: () => {},
    }),
  };
}
