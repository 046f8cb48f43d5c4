import { CONSUL } from "../kit/mesh/consul.ts";
import { usableUpstreams } from "../stories/usable_upstreams.ts";

usableUpstreams(CONSUL);
