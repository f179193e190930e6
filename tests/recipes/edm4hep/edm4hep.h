// Classes with the names and members of those that EDM4hep and podio store. Real ones have the same layout in a file.
#pragma once
#include <cstdint>
#include <vector>

namespace edm4hep {
struct Vector3d {
  double x, y, z;
};
struct Vector3f {
  float x, y, z;
};
struct MCParticleData {
  std::int32_t PDG, generatorStatus;
  float charge, time;
  double mass;
  Vector3d vertex, endpoint, momentum;
  std::uint32_t parents_begin, parents_end, daughters_begin, daughters_end;
};
struct ReconstructedParticleData {
  std::int32_t PDG;
  float energy;
  Vector3f momentum, referencePoint;
  float charge, mass, goodnessOfPID;
  std::uint32_t clusters_begin, clusters_end, tracks_begin, tracks_end, particles_begin, particles_end;
};
struct EventHeaderData {
  std::int32_t eventNumber, runNumber;
  std::uint64_t timeStamp;
  double weight;
  std::uint32_t weights_begin, weights_end;
};
} // namespace edm4hep

namespace podio {
struct ObjectID {
  std::int32_t index;
  std::uint32_t collectionID;
};
} // namespace podio
