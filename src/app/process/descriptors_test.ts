import test from "node:test";
import assert from "node:assert/strict";
import { parseLimits } from "../../net/mod.ts";
import { fittingConnections, tooFewFiles } from "./descriptors.ts";

for (
  const [wanted, limit, want] of [
    [65_536, undefined, 65_536],
    [65_536, 1_048_576, 65_536],
    [65_536, 20_000, 8_775],
    [65_536, 1_024, 341],
    [65_536, 120, 26],
    [100, 1_024, 100],
    [65_536, 2, 1],
  ] as const
) {
  test(`fittingConnections() ${wanted} wanted, ${limit} descriptors: ${want}`, () =>
    assert.equal(fittingConnections(wanted, limit), want));
}

for (const wanted of [500, 65_536]) {
  test(`tooFewFiles() names the limit that ${wanted} connections need`, () => {
    const said = tooFewFiles(wanted, { maxConnections: 341, openFiles: 1_024 });
    assert.match(
      said ?? "",
      new RegExp(`^only 341 of ${wanted} connections fit: .* is 1024; raise it`),
    );
    const needed = Number(/LimitNOFILE=(\d+)/.exec(said ?? "")?.[1]);
    assert.equal(fittingConnections(1e9, needed), wanted);
  });
}

for (
  const [wanted, fitting, isReported] of [
    [65_536, 341, true],
    [65_536, 8_775, false],
    [10_000, 8_775, true],
    [8_000, 8_000, false],
    [500, 341, true],
  ] as const
) {
  test(`tooFewFiles() ${fitting} of ${wanted}: ${isReported ? "reported" : "nothing"}`, () => {
    const said = tooFewFiles(wanted, { maxConnections: fitting, openFiles: 1_024 });
    assert.equal(said !== undefined, isReported);
  });
}

const HEAD = "Limit                     Soft Limit           Hard Limit           Units     \n";

for (
  const [text, want] of [
    [
      `${HEAD}Max open files            20000                524288               files     \n`,
      20_000,
    ],
    [
      `${HEAD}Max open files            unlimited            unlimited            files     \n`,
      undefined,
    ],
    ["", undefined],
  ] as const
) {
  test(`parseLimits() finds ${want}`, () => assert.equal(parseLimits(text), want));
}
