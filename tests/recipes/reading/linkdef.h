#ifdef __CLING__
#pragma link off all globals;
#pragma link off all classes;
#pragma link off all functions;
#pragma link C++ struct Point+;
#pragma link C++ class Base+;
#pragma link C++ class Hit+;
#pragma link C++ class Inner+;
#pragma link C++ class Event+;
#pragma link C++ enum EKind;
#pragma link C++ class std::vector<Point>+;
#pragma link C++ class std::vector<std::vector<bool>>+;
#pragma link C++ class std::vector<std::vector<std::string>>+;
#pragma link C++ class std::vector<std::vector<std::vector<int>>>+;
#pragma link C++ class std::map<int, double>+;
#pragma link C++ function write_all;
#pragma link C++ function cut_off;
#endif
