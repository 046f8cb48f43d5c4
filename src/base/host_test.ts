import assert from "node:assert/strict";
import { test } from "node:test";
import { networkOf } from "./host.ts";

for (
  const [remote, want] of [
    ["10.1.2.3:4711", "10.1.2.3"],
    ["unix", "unix"],
    ["[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2"],
    ["[2001:DB8:0001:02::1]:443", "2001:db8:1:2"],
    ["[2001:db8::1]:443", "2001:db8:0:0"],
    ["[2001:db8:1:2::]:443", "2001:db8:1:2"],
    ["[2001:db8::3:4:5:6:7]:443", "2001:db8:0:3"],
    ["[::1]:443", "0:0:0:0"],
    ["[::]:443", "0:0:0:0"],
    ["[fe80::1%eth0]:443", "fe80:0:0:0"],
    ["[::ffff:192.0.2.7]:443", "192.0.2.7"],
  ] as const
) test(`networkOf() ${remote}`, () => assert.equal(networkOf(remote), want));
