import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import type { DatagramResult } from "../../net/mod.ts";
import { openSyslog } from "./syslog.ts";

const AT = new Date(2026, 10, 7, 9, 5, 3).getTime();

function rig() {
  const sent: string[] = [];
  const state = { result: "sent" as DatagramResult };
  const open = () =>
    openSyslog({
      path: "/dev/log",
      clock: { now: () => AT },
      send(_path, text) {
        if (state.result === "sent") sent.push(text);
        return state.result;
      },
    });
  return { sent, state, open };
}

test("openSyslog() sends each line with its severity, in the form of RFC 3164", () => {
  const { sent, open } = rig();
  const write = open();
  const lines = [
    "2026-11-21T07:30:00.000Z [WARN]  careful",
    '{"time":"2026-11-21T07:30:00.000Z","level":"error","message":"broken"}',
    "<7>2026-11-21T07:30:00.000Z [DEBUG] detail",
    "postern: a last word",
  ];
  const bytes = new TextEncoder().encode(`${lines.join("\n")}\n`);
  assert.equal(write(bytes), bytes.length);
  const head = `Nov  7 09:05:03 postern[${process.pid}]: `;
  assert.deepEqual(sent, [
    `<30>${head}log opened`,
    `<28>${head}${lines[0]}`,
    `<27>${head}${lines[1]}`,
    `<31>${head}2026-11-21T07:30:00.000Z [DEBUG] detail`,
    `<30>${head}postern: a last word`,
  ]);
});

for (
  const [result, want] of [
    ["failed", /^Cannot log to -syslog \/dev\/log: no syslog daemon takes messages there/],
    ["unsupported", /^Cannot log to -syslog \/dev\/log: this runtime has no unix datagrams/],
  ] as const
) {
  test(`openSyslog() fails where the first message is ${result}`, () => {
    const { state, open } = rig();
    state.result = result;
    assert.throws(open, { code: "config_invalid", message: want });
  });
}

test("openSyslog() reports lines that the daemon did not take", () => {
  const { state, open } = rig();
  const write = open();
  state.result = "failed";
  assert.throws(() => write(new TextEncoder().encode("a\n")), { code: "syslog is away" });
});
