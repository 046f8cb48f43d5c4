import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { type GrpcLink, grpcStatus, type StreamHandler } from "../../grpc/mod.ts";
import { callOnce } from "./calls.ts";
import { SIGN } from "./methods.ts";

class Asked {
  readonly clock = new FakeClock();
  readonly wanted = new AbortController();
  handler: StreamHandler<string> | undefined;
  closed = 0;
  /** Listeners of {@link wanted}. */
  listening = 0;
  readonly outcome: Promise<string>;

  constructor() {
    const { signal } = this.wanted;
    const { addEventListener: add, removeEventListener: remove } = signal;
    Object.assign(signal, {
      addEventListener: (...args: Parameters<typeof add>) => {
        this.listening++;
        add.apply(signal, args);
      },
      removeEventListener: (...args: Parameters<typeof remove>) => {
        this.listening--;
        remove.apply(signal, args);
      },
    });
    const link = {
      open: (_path: string, _types: unknown, options: { readonly handler: unknown }) => {
        this.handler = options.handler as StreamHandler<string>;
        return { send() {}, halfClose() {}, close: () => this.closed++ };
      },
    } as unknown as GrpcLink;
    this.outcome = callOnce(link, { method: SIGN, request: "csr" }, {
      host: "10.0.0.1",
      token: "t",
      timeoutMs: 1_000,
      clock: this.clock,
      signal,
    }).catch((error) => String(error.code));
  }
}

for (
  const [what, end, outcome, closed] of [
    [
      "an answer",
      ({ handler }: Asked) => {
        handler?.onMessage("certificate");
        handler?.onEnd(grpcStatus(0, ""));
      },
      "certificate",
      0,
    ],
    [
      "a failure",
      ({ handler }: Asked) => handler?.onEnd(grpcStatus(7, "no")),
      "agent_forbidden",
      0,
    ],
    ["a timeout", ({ clock }: Asked) => clock.advance(1_000), "agent_unreachable", 1],
    ["an abort", ({ wanted }: Asked) => wanted.abort(), "closed", 1],
  ] as const
) {
  test(`callOnce() releases its listeners after ${what}`, async () => {
    const asked = new Asked();
    assert.deepEqual([asked.clock.pending, asked.listening], [1, 1]);
    await end(asked);
    assert.equal(await asked.outcome, outcome);
    assert.deepEqual([asked.clock.pending, asked.listening, asked.closed], [0, 0, closed]);
  });
}
