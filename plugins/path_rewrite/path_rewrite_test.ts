import assert from "node:assert/strict";
import { test } from "node:test";
import { mount } from "../../src/kit/mod.ts";
import pathRewrite from "./path_rewrite.ts";

/** Paths before and after; 400: refused. Rows without a reason are the behaviour of Consul's Envoy. */
for (
  const [config, ...rows] of [
    [{}, ["/a", "/a"]],
    [{ to: "/w" }, ["/a", "/w"], ["/a/b?c=/d", "/w?c=/d"]],
    [
      { prefix: "/p", to: "/" },
      ...[["/p", "/"], ["/p/", "/"], ["/p/a", "/a"], ["/pa", "/a"], ["/p//a", "//a"]] as const,
      ...[["/p?x", "/?x"], ["/p/?x", "/?x"], ["/p/a?/p/b", "/a?/p/b"]] as const,
      ...[["/b/p", "/b/p"], ["/P", "/P"], ["/?/p", "/?/p"], ["*", "*"]] as const,
    ],
    [{ prefix: "/p/", to: "/" }, ["/p/", "/"], ["/p//a", "/a"], ["/p", "/p"]],
    [
      { prefix: "/p", to: "/x/" },
      ...[["/p", "/x/"], ["/p/a", "/x//a"], ["/pa?q", "/x/a?q"]] as const,
    ],
    [{ prefix: "/P", ignoreCase: true, to: "/x" }, ["/p/a", "/x/a"], ["/PA", "/xA"]],
    [{ prefix: "/", to: "/y" }, ["/", "/y"], ["/a?b", "/ya?b"]],
    [{ prefix: "/find/", to: "/s?q=" }, ["/find/a?b", "/s?q=a?b"]],
    // A rewrite must not create a dot segment.
    [
      { prefix: "/p", to: "/" },
      ...[["/p../a", 400], ["/p..?x", 400], ["/p.;x/a", 400], ["/p%2E./a", 400]] as const,
      ...[["/p..\\a", 400], ["/p...", "/..."], ["/p..a", "/..a"], ["/p?..", "/?.."]] as const,
      ["/p/../a", "/../a"],
    ],
    [{ prefix: "/p", to: "/x/" }, ["/p../a", 400]],
    [{ prefix: "/p", to: "/x" }, ["/p../a", "/x../a"]],
    [{ prefix: "/p", to: "/x/.a" }, ["/p./a", "/x/.a./a"]],
    [{ prefix: "/p", to: "/q?" }, ["/p../a", "/q?../a"]],
  ] as readonly (readonly [unknown, ...(readonly [path: string, want: string | number])[]])[]
) {
  test(`path_rewrite with ${JSON.stringify(config)}`, async () => {
    await using listener = await mount(pathRewrite, { config });
    await using route = await mount(pathRewrite, {
      config: { to: "/other" },
      routeConfig: config,
    });
    for (const it of [listener, route]) {
      for (const [path, want] of rows) {
        const { status } = await it.request({ path });
        assert.equal(status === 400 ? 400 : it.upstream.requests.at(-1)?.path, want, path);
      }
    }
  });
}

for (
  const [config, reason] of [
    [{ prefix: "/a" }, /config: has a prefix, and no to/],
    [{ prefix: "a", to: "/" }, /config\.prefix: must begin with \//],
    [{ to: "a" }, /config\.to: must begin with \//],
    [{ to: "/a b" }, /config\.to/],
    [{ to: "/a#b" }, /config\.to/],
    [{ to: "/a%2" }, /config\.to/],
    [{ to: "/a?#" }, /config\.to/],
    [{ to: "/.." }, /config\.to: has a segment of dots/],
    [{ to: "/a/%2e/b" }, /config\.to: has a segment of dots/],
    [{ to: "/a/..;x?" }, /config\.to: has a segment of dots/],
  ] as const
) {
  test(`path_rewrite refuses ${JSON.stringify(config)}`, async () => {
    await assert.rejects(mount(pathRewrite, { config }), reason);
  });
}
