import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { events } from "../../stories/events.ts";

events(DevMesh);
