#ifdef __CLING__
#pragma link off all globals;
#pragma link off all classes;
#pragma link off all functions;
#pragma link C++ enum odd::Narrow;
#pragma link C++ enum odd::Wide;
#pragma link C++ struct odd::Part+;
#pragma link C++ class std::complex<double>+;
#pragma link C++ class std::vector<std::complex<float>>+;
#pragma link C++ class std::tuple<int, std::string, std::vector<float>>+;
#pragma link C++ class std::tuple<int, float>+;
#pragma link C++ class std::vector<std::tuple<int, float>>+;
#pragma link C++ class std::vector<odd::Part>+;
#pragma link C++ class std::map<std::string, odd::Part>+;
#pragma link C++ class std::map<std::string, std::vector<odd::Part>>+;
#pragma link C++ class std::map<int, odd::Narrow>+;
#pragma link C++ class std::map<odd::Wide, int>+;
#pragma link C++ class std::map<odd::Narrow, odd::Wide>+;
#pragma link C++ class std::map<int, std::map<odd::Narrow, odd::Wide>>+;
#pragma link C++ class std::vector<odd::Shape *>+;
#pragma link C++ class odd::Standard+;
#pragma link C++ class odd::Counted+;
#pragma link C++ struct odd::Shape+;
#pragma link C++ struct odd::Square+;
#pragma link C++ struct odd::Circle+;
#pragma link C++ class odd::Holder+;
#pragma link C++ function write_odd;
#endif
