import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { usableUpstreams } from "../../stories/usable_upstreams.ts";

usableUpstreams(DevMesh);
